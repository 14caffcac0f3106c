"""Small wrong changes of the package, and the tests that must notice each of them."""
