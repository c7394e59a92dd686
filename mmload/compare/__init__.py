"""Before and after: sides of repeated runs, loaded, checked to be alike, and put side by side."""
