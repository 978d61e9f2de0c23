"""Which errors of SQLite say that the file is damaged, that the disk is, or neither."""

import sqlite3

import pytest

from trunkline.stores.sqlite.problems import read_problem, write_problem


def error(code: int) -> sqlite3.Error:
    made = sqlite3.OperationalError("said SQLite")
    made.sqlite_errorcode = code
    return made


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB])
def test_damage_lasts(code: int) -> None:
    for problem in (write_problem(error(code)), read_problem(error(code))):
        assert problem is not None
        assert problem.is_lasting
        assert "damaged: said SQLite" in problem.what


@pytest.mark.parametrize(
    "code",
    [
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_READONLY_DBMOVED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
    ],
)
def test_a_disk_that_takes_no_writes_may_do_so_later(code: int) -> None:
    problem = write_problem(error(code))
    assert problem is not None
    assert not problem.is_lasting
    assert "continues by itself" in problem.remedy


def test_a_disk_that_cannot_be_read_needs_somebody() -> None:
    problem = read_problem(error(sqlite3.SQLITE_IOERR_READ))
    assert problem is not None
    assert problem.is_lasting


@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR]
)
def test_a_change_that_is_at_fault_says_nothing_of_the_file(code: int) -> None:
    assert write_problem(error(code)) is None
    assert read_problem(error(code)) is None
    assert read_problem(error(sqlite3.SQLITE_IOERR_NOMEM)) is None
    # An error of the Python module has no code.
    assert write_problem(sqlite3.ProgrammingError("closed")) is None
