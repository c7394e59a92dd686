"""Are two computations the same, bit for bit, and if not, how far apart are they?"""
