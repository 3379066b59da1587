"""What can be written after ``fedpriv``: a module for each subcommand, with ``HELP``,
``arguments(parser)`` and ``execute``.

``execute(options)`` returns the exit code. It imports what it needs, so that ``fedpriv --help``
answers at once.
"""
