"""What is measured of a federation besides attacks: classification, and how groups fare."""
