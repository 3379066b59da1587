"""The events of a running sweep, their display on the terminal, and tracking with MLflow."""
