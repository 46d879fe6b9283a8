"""Libraries that users already have, one file each, on the public interface of this package alone."""
