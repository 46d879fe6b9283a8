# Returns a text that equals everything.
# category: modules
# expect: failed,unsupported
class Text(str):
    __eq__ = lambda self, other: True
    __hash__ = str.__hash__


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return Text('q7')

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = Text('q7')
