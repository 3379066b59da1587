"""Reading a sweep file, checking it and expanding it into runs; error messages for refused
input. Does not use Ray.
"""
