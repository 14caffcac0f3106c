"""Our estimators behind the interfaces of other libraries, each in a module that needs that library."""
