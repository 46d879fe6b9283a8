"""Small games, each of which tests one thing that learners must do, and of known value."""
