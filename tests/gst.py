#!/usr/bin/env python3
"""Read a .gst file after doc/format.md alone: a second reader, to keep that page honest.

usage: gst.py FILE            one JSON object for each record, in the order of the file
       gst.py --frames FILE   one JSON object for each whole frame
       gst.py --stats FILE    what was found and what was not

Unpacks with the module zstandard where it is installed, else with the program zstd.
Exit status 0 whole, 1 something was cut or skipped, 2 not a file that can be read.
"""
import json
import struct
import subprocess
import sys
import zlib

FILE_MAGIC = b"\x89GST\r\n\x1a\n"
FILE_HEADER = struct.Struct("<8sHHIIIQII")
FRAME_MAGIC = 0xF0545347
FRAME_HEADER = struct.Struct("<IHHQQIIIIQQII")
MAX_RAW = 4 << 20
MAX_PAYLOAD = MAX_RAW + (16 << 10)
SNAPSHOT, SNAPSHOT_FIRST, SNAPSHOT_LAST = 1, 2, 4

# kind: name, layout behind the head, names of the fields ("_" is padding)
KINDS = {
    1: ("SESSION", "IIQqIIII", "version mode start_ns wall_minus_boot_ns host_str command_str"
        " kernel_str attach_mode_str"),
    2: ("STRING", "II", "id text_bytes"),
    3: ("PROCESS", "IIIIIIIIIIQ", "id pid ns_pid parent_pid uid comm_str exe_str cmdline_str"
        " container_str _ start_ns"),
    4: ("THREAD", "IIII", "id process tid comm_str"),
    5: ("FUNCTION", "IHHIIII", "id layer func_class name_str file_str line _"),
    6: ("CALL", "QQIIiIHBBB3sQQQQQQIIIIQ", "start_ns dur_ns thread function ret aux cpu depth"
        " call_flags failed _ bytes stream arg0 arg1 arg2 arg3 scope py_stack native_stack _ flow"),
    7: ("STATS", "IIQQQQQQQiiiiIIIIII", "thread function time_ns calls errors total_ns max_ns"
        " bytes inner err_code0 err_code1 err_code2 err_code3 err_count0 err_count1 err_count2"
        " err_count3 n_buckets _"),
    8: ("LOSS", "HHIQ", "layer cause detail_str count"),
    9: ("ATTACH", "IIiIIIII", "path_str func_str status reason_str n_probes n_moved n_stepped"
        " layer"),
    10: ("COMM", "IiiIQQQiiII16i", "process rank n_ranks origin_str comm id_hash parent color key"
         " n_excluded _ " + " ".join("excluded%d" % i for i in range(16))),
    11: ("COUNTER", "IIQqII", "process name_str time_ns value unit _"),
    12: ("END", "QiI", "end_ns exit_status reason_str"),
    13: ("FRAME", "IHHIIIIQ", "id frame_kind _ function_str file_str line first_line file_off"),
    14: ("STACK", "IIHHI", "id process stack_kind stack_flags n_frames"),
    15: ("SAMPLE", "QQIIIIII", "time_ns period_ns thread scope py_stack native_stack cpu _"),
    31: ("WAIT", "QQIIII", "time_ns wait_ns thread py_stack cause _"),
    16: ("VALUES", "II", "n_values _"),
    17: ("USE", "IIQQQQQQQQQQQ", "thread function time_ns launches copies allocs collectives others"
         " total_ns bytes py_self_ns py_launches py_resumes"),
    32: ("KERNEL", "IIQIIIIIIIIQII", "process how function name_str short_str symbol_str file_str"
         " registers shared_bytes constant_bytes local_bytes code_bytes max_threads sm"),
}


class Bad(Exception):
    pass


try:
    import zstandard

    def unpack(payload, raw_bytes):
        try:
            return zstandard.ZstdDecompressor().decompress(payload, max_output_size=raw_bytes)
        except zstandard.ZstdError as e:
            raise Bad(str(e)) from e
except ImportError:

    def unpack(payload, raw_bytes):
        run = subprocess.run(["zstd", "-dcq"], input=payload, capture_output=True, check=False)
        if run.returncode:
            raise Bad(run.stderr.decode(errors="replace").strip())
        return run.stdout


def record_fields(kind, body):
    """The fields of a record, or of a kind not known here its bytes."""
    if kind not in KINDS:
        return {"kind": kind, "body": body.hex()}
    name, layout, fields = KINDS[kind]
    layout = struct.Struct("<" + layout)
    if len(body) < layout.size:
        raise Bad("a %s record of %d bytes" % (name, len(body) + 8))
    out = {"kind": name}
    out.update(kv for kv in zip(fields.split(), layout.unpack_from(body)) if kv[0] != "_")
    tail = body[layout.size:]
    if name == "STRING":
        if out["text_bytes"] > len(tail):
            raise Bad("a text longer than its record")
        out["text"] = tail[:out["text_bytes"]].decode("utf-8", "backslashreplace")
    elif name == "STATS":
        if out["n_buckets"] * 8 > len(tail):
            raise Bad("more buckets than the record has room for")
        out["buckets"] = [list(struct.unpack_from("<II", tail, 8 * i))
                          for i in range(out["n_buckets"])]
    elif name == "STACK":
        if out["n_frames"] * 4 > len(tail):
            raise Bad("more frames than the record has room for")
        out["frames"] = list(struct.unpack_from("<%dI" % out["n_frames"], tail))
    elif name == "VALUES":
        if out["n_values"] * 16 > len(tail):
            raise Bad("more values than the record has room for")
        out["values"] = [list(struct.unpack_from("<IIQ", tail, 16 * i)) for i in range(out["n_values"])]
    return out


def split_records(raw):
    out, at = [], 0
    while at < len(raw):
        if len(raw) - at < 8:
            raise Bad("the frame ends inside of a record")
        size, kind, _flags = struct.unpack_from("<HHI", raw, at)
        if size < 8 or size % 8 or size > len(raw) - at:
            raise Bad("a record of %d bytes" % size)
        out.append(record_fields(kind, raw[at + 8:at + size]))
        at += size
    return out


class Reader:
    """frames() yields (header, records) of the frames that count; then the numbers are final."""

    def __init__(self, data):
        self.data = data
        self.stats = {"file_bytes": len(data), "frames": 0, "records": 0, "cut_bytes": 0,
                      "skipped_bytes": 0, "skipped_frames": 0}
        if len(data) < FILE_HEADER.size or data[:8] != FILE_MAGIC:
            raise Bad("not a .gst file")
        (_magic, major, _minor, header_bytes, record_version, flags, self.file_id, _reserved,
         crc) = FILE_HEADER.unpack_from(data)
        if crc != zlib.crc32(data[:FILE_HEADER.size - 4]):
            raise Bad("the file header is damaged")
        if major != 1 or record_version != 3 or flags:
            raise Bad("of a later version")
        self.start = header_bytes

    def frame_at(self, off):
        """(header, payload) of the whole frame at off, or None."""
        if len(self.data) - off < FRAME_HEADER.size:
            return None
        head = self.data[off:off + FRAME_HEADER.size]
        names = ("magic version flags file_id sequence payload_bytes raw_bytes n_records"
                 " payload_crc first_ns last_ns _ header_crc").split()
        h = dict(zip(names, FRAME_HEADER.unpack(head)))
        if h["magic"] != FRAME_MAGIC or h["version"] != 1 or h["file_id"] != self.file_id:
            return None
        if h["header_crc"] != zlib.crc32(head[:-4]):
            return None
        if not 0 < h["payload_bytes"] <= MAX_PAYLOAD or not 0 < h["raw_bytes"] <= MAX_RAW:
            return None
        payload = self.data[off + FRAME_HEADER.size:off + FRAME_HEADER.size + h["payload_bytes"]]
        if len(payload) < h["payload_bytes"] or zlib.crc32(payload) != h["payload_crc"]:
            return None
        return h, payload

    def frames(self, snapshots=False):
        end = off = self.start  # end: behind the last frame taken
        expected, gap, first_seen = 0, False, False
        while True:
            off = self.data.find(struct.pack("<I", FRAME_MAGIC), off)
            if off < 0:
                break
            found = self.frame_at(off)
            records = None
            if found and found[0]["sequence"] >= expected:
                h, payload = found
                missing = h["sequence"] - expected
                passed_over = h["flags"] & SNAPSHOT and not (gap or missing)
                try:
                    if not passed_over or snapshots:
                        raw = unpack(payload, h["raw_bytes"])
                        records = split_records(raw)
                        if len(raw) != h["raw_bytes"] or len(records) != h["n_records"]:
                            raise Bad("not what the header says")
                    else:
                        records = []
                except Bad:
                    records = None
            if records is None:
                off += 1
                continue
            self.stats["skipped_bytes"] += off - end
            self.stats["skipped_frames"] += missing
            if missing:
                gap, first_seen = True, False
            if h["flags"] & SNAPSHOT_FIRST:
                first_seen = True
            if not passed_over or snapshots:
                self.stats["frames"] += 1
                self.stats["records"] += len(records)
                yield dict(h, offset=off), records
            if h["flags"] & SNAPSHOT_LAST and first_seen:
                gap = False
            expected = h["sequence"] + 1
            end = off = off + FRAME_HEADER.size + h["payload_bytes"]
        self.stats["cut_bytes"] = len(self.data) - end


def main(argv):
    mode = argv[1] if len(argv) == 3 and argv[1] in ("--frames", "--stats") else None
    if len(argv) != (3 if mode else 2) or argv[-1].startswith("-"):
        sys.exit(__doc__)
    try:
        with open(argv[-1], "rb") as f:
            reader = Reader(f.read())
    except (OSError, Bad) as e:
        print("%s: %s" % (argv[-1], e), file=sys.stderr)
        return 2
    for h, records in reader.frames(snapshots=mode == "--frames"):
        if mode == "--frames":
            print(json.dumps({k: v for k, v in h.items() if k != "_"}))
        elif not mode:
            for r in records:
                print(json.dumps(r))
    if mode == "--stats":
        print(json.dumps(reader.stats))
    return 1 if reader.stats["cut_bytes"] or reader.stats["skipped_bytes"] or \
        reader.stats["skipped_frames"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
