"""Environments in which two agents write a helper and a main function of one program."""
