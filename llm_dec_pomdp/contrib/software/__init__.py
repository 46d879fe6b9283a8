"""Software by several authors: methods of a class, modules of a program."""
