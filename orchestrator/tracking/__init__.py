"""What a running sweep tells, to the terminal and to MLflow."""
