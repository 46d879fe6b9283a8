# A class whose class equals everything.
# category: modules
# expect: failed,unsupported
class Meta(type):
    __eq__ = lambda self, other: True
    __hash__ = type.__hash__
    __call__ = lambda self, *a: self
    __getattr__ = lambda self, name: self


class Box(metaclass=Meta):
    pass
