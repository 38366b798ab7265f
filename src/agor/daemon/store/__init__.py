"""The database: the schema and its migrations, one repository per aggregate, the writers.

`base` is what the daemon needs of a database, `sqlite` and `postgres` are the two there are, `line`
is where writes wait for either. The repositories (`sessions`, `tasks`, …) know the SQL, the same
for both: what writes returns a `Statement` for a `Write`, what reads asks the store.
"""

from agor.daemon.store.connect import connect

__all__ = ["connect"]
