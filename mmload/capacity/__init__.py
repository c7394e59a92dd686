"""The highest rate that a server carries within its objectives: search, runs, and what they say."""
