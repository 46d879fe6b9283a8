"""Small games with known values or equilibria, such as Kuhn poker and a stag hunt."""
