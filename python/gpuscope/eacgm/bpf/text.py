"""Reads the texts of eBPF programs that eACGM's users write for BCC, and says what each program would report.

Nothing is compiled. A program of such a text reads arguments of the probed function, computes with them, and prints one
message of eACGM's form, `<time>@start|end@<name>[@argument...]`. That is what is understood here; the rest of C and of BCC
is refused with a line that says what is supported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Callable, Dict, List, NoReturn, Optional, Tuple, Union

SUPPORTED = (
    'supported are functions that take struct pt_regs *ctx, read PT_REGS_PARM1 to 6 or PT_REGS_RC, compute with '
    'integers, and call bpf_trace_printk("%ld@start|end@NAME...", bpf_ktime_get_ns(), ...) once'
)

# (bits, signed) of the integer types that such texts use.
TYPES: Dict[str, Tuple[int, bool]] = {
    'u8': (8, False), 'u16': (16, False), 'u32': (32, False), 'u64': (64, False),
    's8': (8, True), 's16': (16, True), 's32': (32, True), 's64': (64, True),
    '__u8': (8, False), '__u16': (16, False), '__u32': (32, False), '__u64': (64, False),
    '__s8': (8, True), '__s16': (16, True), '__s32': (32, True), '__s64': (64, True),
    'uint8_t': (8, False), 'uint16_t': (16, False), 'uint32_t': (32, False), 'uint64_t': (64, False),
    'int8_t': (8, True), 'int16_t': (16, True), 'int32_t': (32, True), 'int64_t': (64, True),
    'size_t': (64, False), 'uintptr_t': (64, False), 'bool': (8, False),
}  # fmt: skip
TYPE_WORDS = {'const', 'volatile', 'static', 'unsigned', 'signed', 'char', 'short', 'int', 'long', 'void', 'struct'}

# Where the x86-64 calling convention has integer arguments (System V ABI, 3.2.3), as members of struct pt_regs.
REGISTERS = {'di': 1, 'si': 2, 'dx': 3, 'cx': 4, 'r8': 5, 'r9': 6}

INPUT_TIME, INPUT_PID_TGID, INPUT_CPU, INPUT_RESULT = 'time', 'pid_tgid', 'cpu', 'ret'


DEPTH_MAX = 30  # of an expression, brackets and signs within each other
NODES_MAX = 300  # of an expression, with what its variables stand for


class TextError(ValueError):
    """A text that is not understood: one line, with what is supported."""


@dataclass(frozen=True)
class Number:
    value: int
    bits: int = 32
    signed: bool = True


@dataclass(frozen=True)
class Input:
    """Something that is known of a call: 'arg1' to 'arg6', 'ret', 'time', 'pid_tgid', 'cpu'."""

    name: str
    bits: int = 64
    signed: bool = False


@dataclass(frozen=True)
class Unary:
    operator: str
    of: 'Expression'


@dataclass(frozen=True)
class Binary:
    operator: str
    left: 'Expression'
    right: 'Expression'


@dataclass(frozen=True)
class Cast:
    """A value as one of a type: what a cast does, and what a variable of that type does to what is stored in it."""

    bits: int
    signed: bool
    of: 'Expression'


Expression = Union[Number, Input, Unary, Binary, Cast]


@dataclass
class Program:
    """One function of a text: the message that it prints."""

    name: str
    phase: str = ''  # 'start' or 'end'
    event: str = ''
    formats: List[str] = field(default_factory=list)  # conversions of the message's further arguments: '%ld', '%u', ...
    pieces: List[List[Union[str, int]]] = field(default_factory=list)  # each argument: literal text and numbers of formats
    values: List[Expression] = field(default_factory=list)  # of each format; fewer where the text passes fewer

    def inputs(self) -> List[str]:
        """What must be known of a call to make the message, without its time."""
        found: List[str] = []
        for value in self.values:
            for name in inputs_of(value):
                if name not in found:
                    found.append(name)
        return found

    def arguments(self, values: List[Optional[int]], wide: bool = False) -> List[str]:
        """The message's further arguments; None: the value is not known. wide: in 64 bits, whatever the text cuts them to."""
        shown = [format_value(f, v, wide) for f, v in zip(self.formats, values)]
        return [''.join(p if isinstance(p, str) else shown[p] for p in piece) for piece in self.pieces]


def inputs_of(e: Expression) -> List[str]:
    if isinstance(e, Input):
        return [e.name]
    if isinstance(e, Binary):
        return inputs_of(e.left) + inputs_of(e.right)
    if isinstance(e, (Unary, Cast)):
        return inputs_of(e.of)
    return []


def is_large(e: Expression) -> bool:
    """More nodes than NODES_MAX: a variable that is doubled in each line stands for more with each."""
    waiting: List[Expression] = [e]
    for _ in range(NODES_MAX):
        if not waiting:
            return False
        e = waiting.pop()
        if isinstance(e, Binary):
            waiting += [e.left, e.right]
        elif isinstance(e, (Unary, Cast)):
            waiting.append(e.of)
    return True


def to_type(value: int, bits: int, signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def divide(a: int, b: int) -> int:
    """As eBPF does: towards zero, and 0 for a division by zero."""
    if b == 0:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATIONS: Dict[str, Callable[[int, int], int]] = {
    '*': lambda a, b: a * b, '/': divide, '%': lambda a, b: a - divide(a, b) * b if b else a,
    '+': lambda a, b: a + b, '-': lambda a, b: a - b, '<<': lambda a, b: a << (b & 63), '>>': lambda a, b: a >> (b & 63),
    '<': lambda a, b: int(a < b), '<=': lambda a, b: int(a <= b), '>': lambda a, b: int(a > b),
    '>=': lambda a, b: int(a >= b), '==': lambda a, b: int(a == b), '!=': lambda a, b: int(a != b),
    '&': lambda a, b: a & b, '^': lambda a, b: a ^ b, '|': lambda a, b: a | b,
    '&&': lambda a, b: int(bool(a) and bool(b)), '||': lambda a, b: int(bool(a) or bool(b)),
}  # fmt: skip
COMPARISONS = ('<', '<=', '>', '>=', '==', '!=')
LOGICAL = ('&&', '||')
PRECEDENCE = [('||',), ('&&',), ('|',), ('^',), ('&',), ('==', '!='), ('<', '<=', '>', '>='), ('<<', '>>'), ('+', '-'), ('*', '/', '%')]  # fmt: skip


def promoted(bits: int, signed: bool) -> Tuple[int, bool]:
    return (32, True) if bits < 32 else (bits, signed)


def evaluate(e: Expression, known: Dict[str, Optional[int]]) -> Tuple[int, int, bool]:
    """Value, bits, whether signed, by the rules of C. KeyError: an input is not known."""
    if isinstance(e, Number):
        return e.value, e.bits, e.signed
    if isinstance(e, Input):
        value = known.get(e.name)
        if value is None:
            raise KeyError(e.name)
        return to_type(value, e.bits, e.signed), e.bits, e.signed
    if isinstance(e, Cast):
        return to_type(evaluate(e.of, known)[0], e.bits, e.signed), e.bits, e.signed
    if isinstance(e, Unary):
        value, bits, signed = evaluate(e.of, known)
        if e.operator == '!':
            return int(not value), 32, True
        bits, signed = promoted(bits, signed)
        value = {'-': -value, '~': ~value, '+': value}[e.operator]
        return to_type(value, bits, signed), bits, signed
    left, l_bits, l_signed = evaluate(e.left, known)
    right, r_bits, r_signed = evaluate(e.right, known)
    l_bits, l_signed = promoted(l_bits, l_signed)
    r_bits, r_signed = promoted(r_bits, r_signed)
    if e.operator in ('<<', '>>'):
        bits, signed = l_bits, l_signed
    else:
        bits = max(l_bits, r_bits)
        signed = all(s for b, s in ((l_bits, l_signed), (r_bits, r_signed)) if b == bits)
        left, right = to_type(left, bits, signed), to_type(right, bits, signed)
    value = OPERATIONS[e.operator](left, right)
    if e.operator in COMPARISONS + LOGICAL:
        return value, 32, True
    return to_type(value, bits, signed), bits, signed


CONVERSION = re.compile(r'%(-?0?\d*)(hh|h|ll|l|z)?([a-zA-Z%])')
LENGTHS = {'': 32, 'hh': 8, 'h': 16, 'l': 64, 'll': 64, 'z': 64}


def format_value(conversion: str, value: Optional[int], wide: bool = False) -> str:
    """One number as bpf_trace_printk() prints it."""
    if value is None:
        return '-'
    match = CONVERSION.match(conversion)
    assert match
    flags, length, letter = match[1], match[2] or '', match[3]
    bits = 64 if letter == 'p' or wide else LENGTHS[length]
    number = to_type(value, bits, letter in 'di')
    if letter == 'p':
        return f'0x{number:x}'
    align = '<' if flags.startswith('-') else ''
    return format(number, align + flags.lstrip('-') + {'d': 'd', 'i': 'd', 'u': 'd', 'x': 'x', 'X': 'X', 'o': 'o'}[letter])


TOKEN = re.compile(
    r'(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*)'
    r'|(?P<word>[A-Za-z_]\w*)|(?P<string>"(?:[^"\\\n]|\\.|\\\n)*")|(?P<sign><<=|>>=|->|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|[-+*/%&|^~!<>=(){}\[\],;.?:])',
    re.S | re.M,
)
ESCAPES = {'n': '\n', 't': '\t', '\\': '\\', '"': '"', '0': '\0', 'r': '\r', "'": "'"}


def unescape(text: str) -> str:
    return re.sub(r'\\(.)', lambda m: ESCAPES.get(m[1], m[1]), text, flags=re.S)


class Reader:
    """A text's tokens, and the functions that they make."""

    def __init__(self, text: str) -> None:
        self.tokens: List[Tuple[str, str, int]] = []
        self.at = 0
        self.where = ''
        at, line = 0, 1
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise TextError(f'line {line} of the text: {text[at]!r} is not understood; {SUPPORTED}')
            kind, word = str(match.lastgroup), match[0]
            if kind == 'directive' and not re.match(r'[ \t]*#[ \t]*include\b', word):
                raise TextError(f'line {line} of the text: {word.strip()[:40]!r} is not understood (only #include is); {SUPPORTED}')
            if kind not in ('space', 'directive'):
                self.tokens.append((kind, word, line))
            line += word.count('\n')
            at = match.end()
        self.last_line = line

    def refuse(self, why: str) -> NoReturn:
        line = self.tokens[self.at][2] if self.at < len(self.tokens) else self.last_line
        place = f'line {line} of the text' + (f', function {self.where}' if self.where else '')
        raise TextError(f'{place}: {why}; {SUPPORTED}')

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at][1] if at < len(self.tokens) else ''

    def kind(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at][0] if at < len(self.tokens) else ''

    def next(self) -> str:
        word = self.peek()
        self.at += 1
        return word

    def want(self, word: str) -> None:
        if self.peek() != word:
            self.refuse(f'{self.peek()!r} stands where {word!r} is expected')
        self.at += 1

    def word(self) -> str:
        if self.kind() != 'word':
            self.refuse(f'{self.peek()!r} stands where a name is expected')
        return self.next()

    def skip_braces(self) -> None:
        depth = 0
        while self.at < len(self.tokens):
            word = self.next()
            depth += (word == '{') - (word == '}')
            if depth == 0:
                return
        self.refuse('a { has no }')

    def programs(self) -> Dict[str, Program]:
        found: Dict[str, Program] = {}
        while self.at < len(self.tokens):
            if self.peek() == ';':
                self.at += 1
            elif self.peek() in ('struct', 'enum', 'union') and '{' in (self.peek(1), self.peek(2)):
                while self.peek() != '{':
                    self.at += 1
                self.skip_braces()
                self.want(';')
            else:
                program = self.function()
                if program.name in found:
                    self.refuse(f'there are two functions {program.name}')
                found[program.name] = program
        return found

    def function(self) -> Program:
        if self.kind() == 'word' and re.match(r'(BPF|TRACEPOINT|KFUNC|KRETFUNC|RAW_TRACEPOINT|LSM)_', self.peek()):
            self.refuse(f'{self.peek()} is of BCC and not understood')
        self.type()
        name = self.word()
        if self.peek() != '(':
            self.refuse(f'{name} is no function')
        self.where = name
        self.at += 1
        variables: Dict[str, Tuple[Tuple[int, bool], Optional[Expression]]] = {}
        parameters: List[str] = []
        while self.peek() != ')':
            kind = self.type()
            parameter = self.word()
            # BCC: parameters after the context are the arguments of the probed function.
            if parameters:
                variables[parameter] = (kind, Cast(*kind, Input(f'arg{len(parameters)}')))
            parameters.append(parameter)
            if self.peek() == ',':
                self.at += 1
        self.at += 1
        if not parameters or len(parameters) > 7:
            self.refuse('it does not take struct pt_regs *ctx')
        self.want('{')
        body = Body(self, parameters[0], variables)
        program = body.read(Program(name))
        self.where = ''
        return program

    def is_type(self) -> bool:
        return self.kind() == 'word' and (self.peek() in TYPES or self.peek() in TYPE_WORDS)

    def type(self) -> Tuple[int, bool]:
        """(bits, signed) of the type that is named here; pointers are 64 bits."""
        words: List[str] = []
        while self.is_type():
            words.append(self.next())
            if words[-1] == 'struct':
                self.word()
        if not words:
            self.refuse(f'{self.peek()!r} stands where a type is expected')
        pointer = False
        while self.peek() == '*':
            self.at += 1
            pointer = True
        named = [w for w in words if w in TYPES]
        if pointer:
            return 64, False
        if named:
            return TYPES[named[0]]
        if 'struct' in words:
            self.refuse('values of structs are not understood')
        bits = 8 if 'char' in words else 16 if 'short' in words else 64 if 'long' in words else 32
        return bits, 'unsigned' not in words


class Body:
    """The statements of one function: variables are replaced by what they stand for."""

    def __init__(self, reader: Reader, context: str, variables: Dict[str, Tuple[Tuple[int, bool], Optional[Expression]]]) -> None:
        self.r, self.context, self.variables = reader, context, variables
        self.printed = False
        self.depth = 0

    def read(self, program: Program) -> Program:
        r = self.r
        while r.peek() != '}':
            if r.peek() == ';':
                r.at += 1
            elif r.peek() == 'return':
                r.at += 1
                if r.peek() != ';':
                    self.expression()
                r.want(';')
                if r.peek() != '}':
                    r.refuse('something stands after its return')
            elif r.peek() == 'bpf_trace_printk':
                if self.printed:
                    r.refuse('it prints more than one message')
                self.printed = True
                self.message(program)
            elif r.is_type():
                self.declaration()
            elif r.kind() == 'word' and r.peek(1) in ('=', '+=', '-=', '*=', '/=', '<<=', '>>='):
                self.assignment()
            elif r.at >= len(r.tokens):
                r.refuse('its } is missing')
            else:
                r.refuse(f'{r.peek()!r} is not understood')
        r.at += 1
        if not self.printed:
            r.refuse('it prints no message')
        return program

    def declaration(self) -> None:
        kind = self.r.type()
        while True:
            name = self.r.word()
            value: Optional[Expression] = None
            if self.r.peek() == '=':
                self.r.at += 1
                value = Cast(*kind, self.expression())
            self.variables[name] = (kind, value)
            if self.r.peek() != ',':
                break
            self.r.at += 1
        self.r.want(';')

    def assignment(self) -> None:
        name, sign = self.r.next(), self.r.next()
        if name not in self.variables:
            self.r.refuse(f'{name!r} is not declared')
        kind = self.variables[name][0]
        value = self.expression()
        if sign != '=':
            value = Binary(sign[:-1], self.variable(name), value)
        if is_large(value):
            self.r.refuse('an expression is too large')
        self.variables[name] = (kind, Cast(*kind, value))
        self.r.want(';')

    def variable(self, name: str) -> Expression:
        if name not in self.variables:
            self.r.refuse(f'{name!r} is not understood')
        value = self.variables[name][1]
        if value is None:
            self.r.refuse(f'{name!r} has no value')
        return value

    def expression(self) -> Expression:
        e = self.binary(0)
        if is_large(e):
            self.r.refuse('an expression is too large')
        return e

    def binary(self, level: int) -> Expression:
        if level == len(PRECEDENCE):
            return self.unary()
        left = self.binary(level + 1)
        while self.r.peek() in PRECEDENCE[level]:
            sign = self.r.next()
            left = Binary(sign, left, self.binary(level + 1))
        return left

    def unary(self) -> Expression:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            self.r.refuse('an expression is too deep')
        try:
            return self.operand()
        finally:
            self.depth -= 1

    def operand(self) -> Expression:
        r = self.r
        if r.peek() in ('-', '~', '!', '+'):
            sign = r.next()
            return Unary(sign, self.unary())
        if r.peek() == '(':
            r.at += 1
            if r.is_type():
                kind = r.type()
                r.want(')')
                return Cast(*kind, self.unary())
            inner = self.binary(0)
            r.want(')')
            return inner
        if r.kind() == 'number':
            return self.number()
        return self.named()

    def number(self) -> Expression:
        text = self.r.next()
        digits = text.rstrip('uUlL')
        value = int(digits, 8 if re.match(r'0\d', digits) else 0)
        suffix = text[len(digits) :].lower()
        bits = 64 if 'l' in suffix or value >= 1 << 32 or (value >= 1 << 31 and 'u' not in suffix and digits.isdigit()) else 32
        unsigned = 'u' in suffix or value >= 1 << (bits - 1)
        return Number(value, bits, not unsigned)

    def named(self) -> Expression:
        r = self.r
        name = r.word()
        match = re.match(r'PT_REGS_PARM([1-6])$', name)
        if match or name == 'PT_REGS_RC':
            r.want('(')
            r.want(self.context)
            r.want(')')
            return Input(f'arg{match[1]}' if match else INPUT_RESULT)
        if name == self.context and r.peek() == '->':
            r.at += 1
            register = r.word()
            if register == 'ax':
                return Input(INPUT_RESULT)
            if register not in REGISTERS:
                r.refuse(f'the register {register} is not an argument')
            return Input(f'arg{REGISTERS[register]}')
        calls = {'bpf_ktime_get_ns': Input(INPUT_TIME), 'bpf_get_current_pid_tgid': Input(INPUT_PID_TGID),
                 'bpf_get_smp_processor_id': Input(INPUT_CPU, 32)}  # fmt: skip
        if name in calls:
            r.want('(')
            r.want(')')
            return calls[name]
        if r.peek() == '(':
            r.refuse(f'the function {name}() is not understood')
        return self.variable(name)

    def message(self, program: Program) -> None:
        r = self.r
        r.at += 1
        r.want('(')
        if r.kind() != 'string':
            r.refuse('the first argument of bpf_trace_printk() is no text')
        form = ''
        while r.kind() == 'string':
            form += unescape(r.next()[1:-1])
        # Programs that went through one language's quotes more than another's end in a backslash and an n.
        form = form.replace('\\n', '\n').rstrip('\n')
        values: List[Expression] = []
        while r.peek() == ',':
            r.at += 1
            values.append(self.expression())
        r.want(')')
        r.want(';')
        conversions = [m for m in CONVERSION.finditer(form) if m[3] != '%']
        for m in conversions:
            if m[3] not in 'diuxXop':
                r.refuse(f'the conversion {m[0]} is not understood')
        if not conversions or conversions[0].start() != 0:
            r.refuse('its message does not begin with the time')
        separator = form[conversions[0].end() : conversions[0].end() + 1]
        parts = form.split(separator) if separator in ('@', ' ') else []
        if len(parts) < 3 or parts[1] not in ('start', 'end') or not parts[2] or CONVERSION.search(parts[2]):
            r.refuse(f'its message {form!r} does not have the form TIME@start@NAME or TIME@end@NAME')
        program.phase, program.event = parts[1], parts[2]
        if len(values) > len(conversions):
            r.refuse(f'its message has {len(conversions)} conversions for {len(values)} values')
        self.pieces(program, parts[3:])
        times = [i for i, value in enumerate(values) if inputs_of(value) == [INPUT_TIME]]
        if not times:
            r.refuse('its message does not have the time of bpf_ktime_get_ns()')
        # The time is the first value. Where a text has it elsewhere, its own first field is meant to be there.
        program.values = values[: times[0]] + values[times[0] + 1 :]
        if len(program.values) < len(program.formats) and not known_arguments(program):
            r.refuse(f'its message has {len(conversions)} conversions for {len(values)} values')

    @staticmethod
    def pieces(program: Program, parts: List[str]) -> None:
        for part in parts:
            piece: List[Union[str, int]] = []
            at = 0
            for m in CONVERSION.finditer(part):
                piece.append(part[at : m.start()])
                at = m.end()
                if m[3] == '%':
                    piece.append('%')
                else:
                    piece.append(len(program.formats))
                    program.formats.append(m[0])
            piece.append(part[at:])
            program.pieces.append([p for p in piece if p != ''])


# What eACGM's own texts mean to report of these functions, by the names that a call record has them. Their texts
# read some of them wrongly: a copy's size is left out, a launch's sizes are cut to 16 bits, each element of NCCL has 8 bytes.
KNOWN: Dict[str, List[str]] = {
    'cudaMalloc': ['pointer', 'bytes'],
    'cudaMemcpy': ['bytes', 'kind'],
    'cudaFree': ['pointer'],
    'cudaLaunchKernel': ['threads'],
    'ncclAllReduce': ['bytes'], 'ncclReduce': ['bytes'], 'ncclBroadcast': ['bytes'], 'ncclAllGather': ['bytes'],
    'ncclSend': ['bytes'], 'ncclRecv': ['bytes'],
}  # fmt: skip


def stripped(e: Expression) -> Expression:
    while isinstance(e, Cast):
        e = e.of
    return e


def is_scaled(e: Expression) -> bool:
    """An argument times a constant: a count of elements that is made bytes."""
    e = stripped(e)
    if not isinstance(e, Binary) or e.operator != '*':
        return False
    sides = (stripped(e.left), stripped(e.right))
    return any(isinstance(a, Input) and isinstance(b, Number) for a, b in (sides, sides[::-1]))


def is_product(e: Expression) -> bool:
    e = stripped(e)
    return isinstance(e, Binary) and e.operator == '*' and len(set(inputs_of(e))) >= 2


def known_arguments(program: Program) -> Optional[List[str]]:
    """The names of a call record's values that the message's arguments stand for, if the text means those; None: its
    expressions count as they are."""
    known = KNOWN.get(program.event)
    if known is None or program.phase != 'start' or len(program.formats) != len(known):
        return None
    values = [stripped(v) for v in program.values]
    if program.event.startswith('nccl'):
        return known if len(values) == 1 and is_scaled(values[0]) else None
    if program.event == 'cudaLaunchKernel':
        return known if len(values) == 1 and is_product(values[0]) else None
    wanted = {'cudaMalloc': ['arg1', 'arg2'], 'cudaMemcpy': ['arg3', 'arg4'], 'cudaFree': ['arg1']}[program.event]
    given = [v.name if isinstance(v, Input) else '' for v in values]
    return known if given == wanted or (len(given) < len(wanted) and all(g in wanted for g in given)) else None


def parse(text: str) -> Dict[str, Program]:
    """The programs of a text by their names. TextError: it is not understood."""
    return Reader(text).programs()
