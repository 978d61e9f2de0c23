"""What leaves a run: tables, the README between its markers, JSON that can be read back."""

from pathlib import Path

from bench.cases import CASES
from bench.environment import Environment
from bench.export import as_json, read_json, write_json
from bench.figures import CPU_US
from bench.readme import BEGIN, END, update_readme
from bench.report import table
from bench.samples import Results
from bench.servers import SERVERS

HERE = Environment(
    python="3.13.1",
    node=None,
    packages={"a2a-sdk": "1.3.0"},
    commit="abc",
    cpu="cpu",
    cores=2,
    kernel="6.1",
    date="2025-01-01",
)


def measured() -> Results:
    results = Results()
    results.cell("send-32", "trunkline").samples.extend([{CPU_US: 150}, {CPU_US: 170}])
    results.cell("send-32", "a2a-sdk").samples.append({CPU_US: 3200})
    results.cell("send-32", "fasta2a").problem = "2 of 10 answers: state failed"
    return results


def test_only_the_block_between_the_markers_changes(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        update_readme(readme, measured(), CASES, SERVERS, HERE)
    text = readme.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"\n{END}\nafter\n")
    assert "old" not in text
    assert "| 160<br><sub>150–170</sub> | 3,200 |" in text
    assert text.count("Python 3.13.1") == 2


def test_rows_have_median_range_and_ratio() -> None:
    (send,) = (case for case in CASES if case.name == "send-32")
    head, ours, peer, failed = table(measured(), send, SERVERS, HERE)
    assert head[:5] == ["server", "runtime", "CPU µs", "min–max", "× Trunkline"]
    assert ours[2:5] == ["160", "150–170", "1.0"]
    assert peer[2:5] == ["3,200", "3,200–3,200", "20.0"]
    assert failed[2] == "2 of 10 answers: state failed"


def test_json_keeps_every_sample() -> None:
    content = as_json(measured(), CASES, SERVERS, HERE)
    ours = content["cases"]["send-32"]["servers"]["trunkline"]
    assert ours["samples"] == [{CPU_US: 150}, {CPU_US: 170}]
    assert ours["figures"][CPU_US] == {"median": 160, "low": 150, "high": 170}


def test_an_earlier_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    content = as_json(measured(), CASES, SERVERS, HERE)
    write_json(tmp_path / "run.json", content)
    results, environment = read_json(tmp_path / "run.json")
    assert environment == HERE
    assert as_json(results, CASES, SERVERS, environment) == content
