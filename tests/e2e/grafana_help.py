"""Grafana's dashboards without Grafana: what it makes of their queries, and what PromQL answers, worked out from a scrape."""

import http.server
import json
import math
import os
import re
import threading
import time

import harness
from harness import wait_until

FOLDER = os.path.join(harness.HERE, '../../packaging/grafana')


def board_of(name):
    with open(os.path.join(FOLDER, name), encoding='utf-8') as f:
        return json.load(f)


def panels(board):
    return [p for p in board['panels'] if p['type'] != 'row']


def kind_of(board):
    return next(v['query'] for v in board['templating']['list'] if v['type'] == 'datasource')


# --- SQL: the macros of Grafana's MySQL data source (pkg/tsdb/mysql/macros.go), and quoted lists of variables ---


def expand_sql(sql, begin, end, interval_s, **variables):
    for name, values in variables.items():
        sql = re.sub(rf'\${name}\b', lambda _, v=values: ','.join("'" + x + "'" for x in v), sql)
    sql = re.sub(r'\$__interval\b', f'{interval_s}s', sql)
    sql = re.sub(r'\$__timeFilter\(([^)]*)\)', rf'\1 BETWEEN FROM_UNIXTIME({int(begin)}) AND FROM_UNIXTIME({int(end)})', sql)

    def group(found):
        column, seconds = found.group(1), int(found.group(2))
        return f'UNIX_TIMESTAMP({column}) DIV {seconds} * {seconds} AS "time"'

    return re.sub(r'\$__timeGroupAlias\(([^,]+),\s*(\d+)s\)', group, sql)


# --- PromQL: the part of it that dashboards use, over one scrape whose counters go up by `slope` a second ---

TOKEN = re.compile(r'\s*([A-Za-z_:][\w:]*|\d+(?:\.\d+)?|\{[^}]*\}|\[[^\]]*\]|==|[-+*/(),])')
LABEL = re.compile(r'([A-Za-z_]\w*)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')
ANY = float('inf')  # what cannot be said: any number that is not negative


def parse_scrape(text, **more):
    """[(name, labels, value)] and the names of counters."""
    series, counters = [], set()
    for line in text.splitlines():
        if line.startswith('# TYPE ') and line.split()[3] == 'counter':
            counters |= {line.split()[2], line.split()[2] + '_total'}
        found = re.match(r'([^ {#]+)(?:\{(.*)\})? (\S+)', line)
        if found:
            labels = dict((k, v) for k, _, v in LABEL.findall(found.group(2) or ''))
            series.append((found.group(1), {**labels, **more}, float(found.group(3))))
    return series, counters


class Answers:
    """What a query answers: {labels without the name, as a sorted tuple: value}."""

    def __init__(self, series, counters, slope, now):
        self.series, self.counters, self.slope, self.now = series, counters, slope, now

    def ask(self, query):
        self.tokens = TOKEN.findall(query)
        assert ''.join(self.tokens) == re.sub(r'\s', '', query) or '{' in query, query
        got = self.comparison()
        assert not self.tokens, (query, self.tokens)
        return got if isinstance(got, dict) else {(): got}

    def next(self, wanted=None):
        token = self.tokens.pop(0)
        assert wanted is None or token == wanted, (token, wanted)
        return token

    def peek(self):
        return self.tokens[0] if self.tokens else None

    def comparison(self):
        left = self.sum()
        while self.peek() in ('==', 'or'):
            if self.next() == '==':
                right = self.sum()
                left = {k: v for k, v in left.items() if v == right}
            else:
                left = {**self.sum(), **left} if left else self.sum()
        return left

    def binary(self, left, sign, right):
        def one(a, b):
            if ANY in (a, b):
                return ANY
            return a + b if sign == '+' else a - b if sign == '-' else a * b if sign == '*' else a / b

        if isinstance(left, dict) and isinstance(right, dict):
            return {k: one(v, right[k]) for k, v in left.items() if k in right}
        if isinstance(left, dict):
            return {k: one(v, right) for k, v in left.items()}
        return {k: one(left, v) for k, v in right.items()} if isinstance(right, dict) else one(left, right)

    def sum(self):
        left = self.product()
        while self.peek() in ('+', '-'):
            sign = self.next()
            left = self.binary(left, sign, self.product())
        return left

    def product(self):
        left = self.primary()
        while self.peek() in ('*', '/'):
            sign = self.next()
            left = self.binary(left, sign, self.primary())
        return left

    def primary(self):
        token = self.next()
        if token == '(':
            got = self.comparison()
            self.next(')')
            return got
        if re.match(r'\d', token):
            return float(token)
        if token == 'histogram_quantile':
            # Of buckets that all grow alike: some number for each group of labels.
            self.next('(')
            self.next()
            self.next(',')
            inner = self.comparison()
            self.next(')')
            return {tuple((a, b) for a, b in k if a != 'le'): ANY for k in inner}
        if token in ('sum', 'avg', 'count', 'topk', 'bottomk'):
            return self.aggregation(token)
        if self.peek() == '(':
            self.next('(')
            inner = None if self.peek() == ')' else self.comparison()
            self.next(')')
            return {'time': lambda: self.now, 'vector': lambda: {(): inner}, 'rate': lambda: inner, 'increase': lambda: inner,
                    'floor': lambda: {k: math.floor(v + 1e-9) for k, v in inner.items()}}[token]()  # fmt: skip
        return self.selector(token)

    def aggregation(self, token):
        by = ()
        if self.peek() == 'by':
            self.next()
            self.next('(')
            by = []
            while self.peek() != ')':
                by.append(self.next())
                if self.peek() == ',':
                    self.next()
            self.next(')')
        self.next('(')
        inner = self.comparison()
        if self.peek() == ',':
            self.next()
            n, inner = int(inner), self.comparison()
            self.next(')')
            order = sorted(inner.items(), key=lambda kv: kv[1], reverse=token == 'topk')
            return dict(order[:n])
        self.next(')')
        groups = {}
        for k, v in inner.items():
            groups.setdefault(tuple((a, b) for a, b in k if a in by), []).append(v)
        how = {'sum': sum, 'count': len, 'avg': lambda x: sum(x) / len(x)}[token]
        return {k: ANY if ANY in v else how(v) for k, v in groups.items()}

    def selector(self, name):
        matchers = LABEL.findall(self.next()) if (self.peek() or '').startswith('{') else []
        span = self.next()[1:-1] if (self.peek() or '').startswith('[') else None
        found = {}
        for series, labels, value in self.series:
            if series == name and all(self.fits(labels.get(k, ''), how, v) for k, how, v in matchers):
                if span:  # by rate() or increase(), of which only the first can be said
                    value = self.slope if name in self.counters and not span.endswith('d') else ANY
                elif name in self.counters:
                    value = ANY
                found[tuple(sorted(labels.items()))] = value
        return found

    @staticmethod
    def fits(value, how, wanted):
        if how in ('=', '!='):
            return (value == wanted) == (how == '=')
        return bool(re.fullmatch(wanted.replace('\\\\', '\\'), value)) == (how == '=~')


def difference(got, wanted, tolerance):
    """Nothing, or the first thing in which two answers differ."""
    if set(got) != set(wanted):
        return f'series: {sorted(set(got) ^ set(wanted))[:4]}'
    for k, v in wanted.items():
        if got[k] < 0 if v == ANY else abs(got[k] - v) > tolerance * max(1, abs(v)):
            return f'{k}: {got[k]}, not {v}'
    return None


class Frozen(http.server.ThreadingHTTPServer):
    """Serves what a program served once; its counters go up by `slope` a second, as those of a program that works do."""

    daemon_threads = True

    def __init__(self, text, slope):
        frozen, self.began = self, time.time()
        _, counters = parse_scrape(text)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                more, lines = slope * (time.time() - frozen.began), []
                for line in text.splitlines():
                    name = re.match(r'[^ {]*', line)[0]
                    if name in counters and not line.startswith('#'):
                        head, value = line.rsplit(' ', 1)
                        line = f'{head} {float(value) + more:.6f}'
                    lines.append(line)
                body = ('\n'.join(lines) + '\n').encode()
                self.send_response(200)
                self.send_header('Content-Type', 'text/plain; version=0.0.4')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        super().__init__(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.target = f'127.0.0.1:{self.server_address[1]}'


def top_difference(got, inner, n, is_top, tolerance):
    """Of topk() and bottomk(): which ones of equal values it takes is its own choice."""
    if len(got) != min(n, len(inner)) or not set(got) <= set(inner):
        return f'{len(got)} series of {len(inner)}'
    rest = [v for k, v in inner.items() if k not in got]
    if rest and (min(got.values()) < max(rest) * (1 - tolerance) if is_top else max(got.values()) > min(rest) * (1 + tolerance)):
        return 'not the first ones'
    return difference(got, {k: inner[k] for k in got}, tolerance)


def compare_answer(t, p, series, counters, slope, query, what, loose=False):
    state = {}
    tolerance = 0.2 if loose or 'rate(' in query or 'increase(' in query else 1e-6
    top = re.fullmatch(r'(topk|bottomk)\((\d+), (.*)\)', query)

    def equal():
        at = round(time.time(), 3)
        rows = p.query_now(query, at)
        got = {tuple(sorted((k, v) for k, v in r['metric'].items() if k != '__name__')): float(r['value'][1]) for r in rows}
        answers = Answers(series, counters, slope * 10 if 'increase(' in query else slope, at)
        wanted = answers.ask(top.group(3) if top else query)
        state['why'] = (top_difference(got, wanted, int(top.group(2)), top.group(1) == 'topk', tolerance) if top
                        else difference(got, wanted, tolerance))  # fmt: skip
        return state['why'] is None

    try:
        wait_until(equal, 10, what)
    except AssertionError:
        t.fail(f'{what}: {query}: {state["why"]}')
