"""The part of CEL, the Common Expression Language, that providers of workload identity pools use.

It supports literals, `a.b` and `a['b']`, `==`, `!=`, `in`, `&&`, `||`, `!`, `+`, and `startsWith`, `endsWith`,
`contains` and `matches` of strings. Setting the state refuses anything else.
"""

import re

TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
TOKEN = re.compile(rf"\s*(?:{TEXT}|[A-Za-z_]\w*|\d+|&&|\|\||==|!=|[!()\[\].,+])")
METHODS = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, part: part in text,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}


class CelFault(Exception):
    pass


def parse(text):
    parser = Parser(tokens(text))
    tree = parser.either()
    if parser.peek() is not None:
        raise CelFault(f"{text!r} goes on after its end")
    return tree


def evaluate(text, names):
    return value_of(parse(text), names)


def tokens(text):
    found, place = [], 0
    while text[place:].strip():
        match = TOKEN.match(text, place)
        if match is None:
            raise CelFault(f"{text!r} is not understood at {place}")
        found.append(match.group().strip())
        place = match.end()
    return found


class Parser:
    def __init__(self, found):
        self.found, self.place = found, 0

    def peek(self):
        return self.found[self.place] if self.place < len(self.found) else None

    def take(self, *wanted):
        token = self.peek()
        if token is None or (wanted and token not in wanted):
            raise CelFault(f"{token!r} where {wanted or 'something'} must be")
        self.place += 1
        return token

    def chain(self, operators, below):
        tree = below()
        while self.peek() in operators:
            tree = (self.take(), tree, below())
        return tree

    def either(self):
        return self.chain(("||",), self.both)

    def both(self):
        return self.chain(("&&",), self.relation)

    def relation(self):
        return self.chain(("==", "!=", "in"), self.sum)

    def sum(self):
        return self.chain(("+",), self.unary)

    def unary(self):
        if self.peek() == "!":
            self.take()
            return ("!", self.unary())
        tree = self.primary()
        while self.peek() in (".", "["):
            tree = self.member(tree)
        return tree

    def member(self, tree):
        if self.take() == "[":
            index = self.either()
            self.take("]")
            return ("[]", tree, index)
        name = self.take()
        if self.peek() != "(":
            return ("[]", tree, ("value", name))
        if name not in METHODS:
            raise CelFault(f"the function {name} is not known here")
        self.take("(")
        argument = self.either()
        self.take(")")
        return ("call", name, tree, argument)

    def primary(self):
        token = self.take()
        if token == "(":
            tree = self.either()
            self.take(")")
            return tree
        if token == "[":
            items = []
            while self.peek() != "]":
                items.append(self.either())
                if self.peek() != "]":
                    self.take(",")
            self.take("]")
            return ("list", items)
        if token[0] in "'\"":
            return ("value", re.sub(r"\\(.)", r"\1", token[1:-1]))
        if token.isdigit():
            return ("value", int(token))
        if token in ("true", "false"):
            return ("value", token == "true")
        if re.fullmatch(r"[A-Za-z_]\w*", token):
            return ("name", token)
        raise CelFault(f"{token!r} begins no expression")


def value_of(tree, names):
    kind, *parts = tree
    if kind == "value":
        return parts[0]
    if kind == "list":
        return [value_of(item, names) for item in parts[0]]
    if kind == "name":
        return lookup(names, parts[0])
    if kind == "!":
        return not truth(value_of(parts[0], names))
    if kind == "call":
        name, target, argument = parts
        texts = (value_of(target, names), value_of(argument, names))
        if not all(isinstance(text, str) for text in texts):
            raise CelFault(f"{name} is of texts")
        return METHODS[name](*texts)
    if kind in ("&&", "||"):
        left = truth(value_of(parts[0], names))
        return left if left == (kind == "||") else truth(value_of(parts[1], names))
    left, right = (value_of(part, names) for part in parts)
    if kind == "[]":
        return lookup(left, right)
    if kind == "in":
        return left in right
    if kind == "+":
        if type(left) is not type(right):
            raise CelFault("+ of two kinds")
        return left + right
    same = type(left) is type(right) and left == right
    return same == (kind == "==")


def lookup(names, key):
    if not isinstance(names, dict) or key not in names:
        raise CelFault(f"no such key: {key}")
    return names[key]


def truth(value):
    if not isinstance(value, bool):
        raise CelFault(f"{value!r} is neither true nor false")
    return value
