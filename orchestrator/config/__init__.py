"""A sweep file, read, checked and expanded into runs; what is refused, and how that is said. Knows no Ray and no results."""
