"""Building blocks of all other rooms: messages, parameter layout, networks, noise, clipping and
privacy accounting.
"""
