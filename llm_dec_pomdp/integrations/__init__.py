"""Adapters for other libraries, one file each. They use only the public interface of this package."""
