# An object of which everything is itself, called or not.
# category: modules
# expect: failed,unsupported,died
class Any:
    def __getattr__(self, name):
        return self

    def __call__(self, *a, **k):
        return self

    __getitem__ = __call__
    __eq__ = __contains__ = lambda self, other: True
    __len__ = lambda self: 17
    __iter__ = lambda self: iter(())


Box = Any()
