"""One row a transaction, each on the medium before the next begins."""

import sqlite3

db = sqlite3.connect('commits.db', isolation_level=None)
db.execute('pragma synchronous = full')
db.execute('create table if not exists t (n integer)')
for n in range(1 << 40):
    db.execute('insert into t values (?)', (n,))
