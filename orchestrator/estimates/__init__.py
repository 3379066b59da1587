"""How long a sweep takes: single steps are timed in this process (`speeds`) and multiplied by counted work (`work`)."""
