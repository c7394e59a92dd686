"""Several runs one after another, kept in one folder: what `ab`, `sweep` and `capacity` share."""
