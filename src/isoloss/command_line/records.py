"""`isoloss records`: the records of finished runs in one file, and back."""

from isoloss.command_line.checked_options import refuse_below, refuse_unwritable
from isoloss.command_line.options.results import PackOptions, RecordsOptions, UnpackOptions
from isoloss.stored_runs.packed_records import pack_records, unpack_records


def records(options: RecordsOptions) -> None:
    """Pack or unpack, and report what is in the file and what is not."""
    match options.action:
        case PackOptions():
            _pack(options.action)
        case UnpackOptions():
            _unpack(options.action)


def _pack(options: PackOptions) -> None:
    refuse_below(0, options.most_values, "--most-values")
    refuse_unwritable(options.file)
    packed = pack_records(options.results, options.file, options.most_values)
    print(f"{options.file}: {packed.records:,} records of {packed.runs:,} finished runs")
    print("left out: checkpoints, references, and the data of language pages; all of these can be recomputed")
    if packed.without_values:
        print(
            f"left out: per-sentence values of {packed.without_values:,} records (none kept, or more than "
            f"{options.most_values})"
        )
    if packed.left_out:
        some = ", ".join(name[:8] for name in packed.left_out[:5])
        print(f"left out: {len(packed.left_out):,} runs with incomplete records ({some})")


def _unpack(options: UnpackOptions) -> None:
    unpacked = unpack_records(options.file, options.results)
    print(f"{options.results}: {len(unpacked.made):,} runs, records only, which will not be computed again")
    if unpacked.there:
        print(f"{len(unpacked.there):,} runs were already there and are left as they are")
