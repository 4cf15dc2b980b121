"""Complete real data with holes, beside other methods, and write tables of what came out.

Run with ``python benchmarks/real_data.py``; the whole table takes about half an hour on two cores.
Each answer is written down at once, and what has been run is not run again.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tensormend.research.realdata.contestants import CONTESTANTS, OURS, run_function
from tensormend.research.realdata.datasets import DATA, NAMES
from tensormend.research.realdata.losses import CELLS
from tensormend.research.realdata.page import RECORDS, write_page
from tensormend.research.realdata.runner import Runner


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    cells = [cell.name for cell in CELLS]
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME")
    parser.add_argument("--cells", nargs="+", choices=cells, default=cells, metavar="CELL")
    parser.add_argument(
        "--methods", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS), metavar="NAME"
    )
    parser.add_argument(
        "--again",
        nargs="+",
        choices=list(CONTESTANTS),
        default=[],
        metavar="NAME",
        help="contestants to run even where there is a record",
    )
    parser.add_argument("--data", type=Path, help=f"folder of the traffic data, or ${DATA}")
    parser.add_argument("--out", type=Path, default=Path("real-data-output"))
    parser.add_argument("--write", type=Path, metavar="PAGE", help="the page, by default in --out")
    parser.add_argument("--redraw", action="store_true", help="only write the page again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--ours",
        metavar="MODULE:FUNCTION",
        help="complete with this function, from data with NaN to filled data",
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    page = arguments.write or arguments.out / "real-data.md"
    records = arguments.out / RECORDS
    if not arguments.redraw:
        known = {**CONTESTANTS}
        if arguments.ours:
            known[OURS] = run_function(arguments.ours)
        Runner(
            records,
            {name: known[name] for name in arguments.methods},
            folder=arguments.data,
            seed=arguments.seed,
            again=arguments.again,
            note=lambda line: print(line, flush=True),
        ).run(arguments.only, [cell for cell in CELLS if cell.name in arguments.cells])
    elif not records.exists():
        records = page.with_suffix("") / RECORDS
    write_page(records, page)
    print(f"wrote {os.path.relpath(page)}")


if __name__ == "__main__":
    main()
