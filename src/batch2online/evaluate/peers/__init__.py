"""What readers do today: refits of batch algorithms, and learners of other libraries."""
