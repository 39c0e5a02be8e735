"""`tally cumsum` with --output-dtype, --nan, --initial, --include-initial and --offsets, and with
booleans.

Plain Python, without packages:  TALLY=build/bin/tally TALLY_URL=... python3 tests/client/test_cli_attributes.py
"""

import itertools
import json
import random
import struct
import sys
import unittest

from test_cli import Directory, Server, npy, npy_parts, sums, tally

WIDE = ["--output-dtype", "int32", "--initial", "5", "--include-initial"]


def cumsum(lines, initial, include, reverse):
    """Sums of each line of integers, as the service defines them."""
    result = []
    for line in lines:
        total = initial
        out = [total] if include else []
        for value in reversed(line) if reverse else line:
            total += value
            out.append(total)
        result.append(out[::-1] if reverse else out)
    return result


def transposed(rows, count):
    return [list(column) for column in zip(*rows)] if rows else [[] for _ in range(count)]


class Attributes(Directory):
    def dead(self, *arguments, stdin=b""):
        """Run the command with the address of no server: it must refuse before it sends a
        request."""
        return tally(*arguments, stdin=stdin, url="http://127.0.0.1:1")

    def test_files_of_every_layout_in_parts_have_the_sums_of_the_whole(self):
        seeded = random.Random(4)
        shapes = ((70, 3), (3, 70), (1, 1), (0, 3), (3, 0))
        for shape, axis, reverse, fortran in itertools.product(
            shapes, (0, 1), (False, True), (False, True)
        ):
            rows = [[seeded.randrange(256) for _ in range(shape[1])] for _ in range(shape[0])]
            lines = rows if axis == 1 else transposed(rows, shape[1])
            expected = cumsum(lines, 5, True, reverse)
            length = shape[axis] + 1
            expected = expected if axis == 1 else transposed(expected, length)
            columns = transposed(rows, shape[1]) if fortran else rows
            data = bytes(value for line in columns for value in line)
            source = self.path("in.npy", npy("|u1", shape, data, fortran))
            flags = ["--axis", str(axis), *(["--reverse"] if reverse else []), *WIDE]
            for part_bytes in ("1", "40", "64MiB"):
                with self.subTest(
                    shape=shape, axis=axis, reverse=reverse, fortran=fortran, part_bytes=part_bytes
                ):
                    done = tally(
                        "cumsum",
                        source,
                        "-o",
                        self.path("out.npy"),
                        "--part-bytes",
                        part_bytes,
                        *flags,
                    )
                    self.assert_done(done)
                    header, data = npy_parts(self.read("out.npy"))
                    found = struct.unpack(f"<{len(data) // 4}i", data)
                    size = (length, shape[1]) if axis == 0 else (shape[0], length)
                    self.assertIn("'<i4'", header)
                    self.assertIn(f"({size[0]}, {size[1]})", header)
                    order = transposed(expected, size[1]) if fortran else expected
                    self.assertEqual(list(found), [v for line in order for v in line])

    def test_the_first_part_of_a_stream_alone_has_the_initial_value(self):
        text = b"".join(b"%d\n" % i for i in range(1, 6))
        for part_bytes in ("8", "64MiB"):
            done = tally(
                "cumsum",
                *("-f", "text", "--part-bytes", part_bytes, "--initial", "10", "--include-initial"),
                stdin=text,
            )
            self.assert_done(done)
            self.assertEqual(done.stdout, b"10\n11\n13\n16\n20\n25\n")

        def script(number, head, body):
            count = 2 if number == 0 else 1
            carry = b"TALLYSUM" + bytes(64)
            head = f"Tally-Dtype: int64\r\nTally-Shape: 1,{count},1\r\nTally-Carry-Length: 72\r\n"
            data = carry + bytes(8 * count)
            return (
                b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
                + f"Content-Length: {len(data)}\r\n{head}\r\n".encode()
                + data
            )

        with Server(script) as s:
            done = tally(
                "cumsum",
                *("-f", "raw", "-d", "int32", "-s", "3", "--part-bytes", "8"),
                *("--output-dtype", "int64", "--nan", "skip", "--initial", "7"),
                "--include-initial",
                stdin=bytes(12),
                url=s.url,
            )
        self.assert_done(done)
        self.assertEqual(len(done.stdout), 32)
        lines = [head.split(" ")[1] for head in s.heads]
        every = "?dtype=int32&shape=1,1,1&axis=1&output_dtype=int64&nan=skip"
        self.assertEqual(
            lines,
            [
                f"/v1/cumsum{every}&initial=7&include_initial=true&part=first",
                f"/v1/cumsum{every}&part=next",
                f"/v1/cumsum{every}&part=next",
            ],
        )

    def test_a_stream_without_elements_has_the_sum_before_them(self):
        for shape, axis, expected in (
            ("-1", "0", [4]),
            ("-1,2", "0", [[4, 4]]),
            ("-1,2", "1", []),
            ("2,0", "1", [[4], [4]]),
        ):
            flags = ["-f", "raw", "-d", "int32", "-s", shape, "--axis", axis, "-F", "json"]
            done = tally("cumsum", *flags, "--initial", "4", "--include-initial")
            self.assert_done(done)
            self.assertEqual(json.loads(done.stdout), expected)
        done = tally("cumsum", "-f", "text", "--include-initial")
        self.assert_done(done)
        self.assertEqual(done.stdout, b"")

    def test_booleans_of_every_format_are_counted(self):
        data = b"\1\0\1"
        source = self.path("in.npy", npy("|b1", (3,), data))
        self.assert_done(tally("cumsum", source, "-o", self.path("out.npy")))
        header, found = npy_parts(self.read("out.npy"))
        self.assertIn("'<i8'", header)
        self.assertEqual(struct.unpack("<3q", found), (1, 1, 2))
        for stdin, *flags in (
            (data, "-f", "raw", "-d", "bool", "-s", "3", "-F", "text"),
            (b"true\nfalse\nTRUE\n", "-f", "text"),
            (b"True\n0\n1\n", "-f", "text", "-d", "bool"),
            (b"1\n0\n1\n", "-f", "text", "-d", "bool", "--output-dtype", "uint8"),
        ):
            with self.subTest(flags=flags):
                done = tally("cumsum", *flags, stdin=stdin)
                self.assert_done(done)
                self.assertEqual(done.stdout, b"1\n1\n2\n")
        done = tally("cumsum", "-f", "csv", "--header", stdin=b"a,b\ntrue,false\ntrue,true\n")
        self.assertEqual(done.stdout, b"a,b\n1,0\n2,1\n")
        done = tally("cumsum", stdin=b"[true,false,true]")
        self.assertEqual(json.loads(done.stdout), [1, 1, 2])

    def test_a_byte_that_is_no_boolean_is_named_by_its_place_in_the_file(self):
        source = self.path("in.npy", npy("|b1", (3, 4), b"\1" * 10 + b"\2\1"))
        for axis, part_bytes in (("0", "64MiB"), ("0", "8"), ("1", "8"), ("1", "16")):
            done = tally("cumsum", source, "--axis", axis, "--part-bytes", part_bytes)
            self.assert_failed(done, 2, "in.npy: element 10 is the byte 2, expected 0 or 1")
        done = tally("cumsum", "-d", "bool", "-s", "-1", "-f", "raw", stdin=b"\1\1\3")
        self.assert_failed(done, 2, "standard input: element 2 is the byte 3")

    def test_nan_counts_as_nothing_if_asked(self):
        data = struct.pack("<4f", 1.5, float("nan"), 2, float("nan"))
        source = self.path("in.npy", npy("<f4", (4,), data))
        for mode, expected in (
            ("propagate", [1.5, "NaN", "NaN", "NaN"]),
            ("zero", [1.5, 1.5, 3.5, 3.5]),
            ("skip", [1.5, "NaN", 3.5, "NaN"]),
        ):
            for part_bytes in ("4", "64MiB"):
                flags = ["--nan", mode, "--part-bytes", part_bytes, "-F", "json"]
                done = tally("cumsum", source, *flags)
                self.assert_done(done)
                self.assertEqual(json.loads(done.stdout), expected)
        done = tally("cumsum", "--nan", "skip", stdin=b'[1.5,"NaN",2,null]')
        self.assertEqual(json.loads(done.stdout), [1.5, "NaN", 3.5, "NaN"])

    def test_json_goes_with_all_attributes(self):
        for text, flags, expected in (
            ("[200,100]", ["-d", "uint8", "--output-dtype", "int64"], [200, 300]),
            ("[1,2]", ["--initial", "-10", "--include-initial"], [-10, -9, -7]),
            ("[1.5]", ["--initial", "1e+1", "--include-initial"], [10.0, 11.5]),
            ("[1.5]", ["--initial", "-inf"], ["-Infinity"]),
            ("[1.5]", ["--initial", "nan", "--nan", "zero"], [1.5]),
            ("[]", ["-s", "0", "--initial", "3", "--include-initial"], [3.0]),
            (
                "[]",
                ["-f", "json", "-s", "2,0", "-a", "-1", "-d", "i1", "--include-initial"],
                [0, 0],
            ),
            ("[9007199254740993]", ["--initial", "9007199254740993"], [18014398509481986]),
        ):
            with self.subTest(text=text, flags=flags):
                done = tally("cumsum", *flags, stdin=text.encode())
                self.assert_done(done)
                self.assertEqual(json.loads(done.stdout), expected)
        done = tally("cumsum", *WIDE, "-d", "int8", "-F", "raw", stdin=b"[1,2]")
        self.assertEqual(done.stdout, struct.pack("<3i", 5, 6, 8))
        flags = ["-s", "2,1", "-a", "-1", "--include-initial", "-F", "raw"]
        done = tally("cumsum", *flags, stdin=b"[1,2]")
        self.assert_done(done)
        self.assertEqual(done.stdout, struct.pack("<4q", 0, 1, 0, 2))

    def test_strided_numbers_go_with_all_attributes(self):
        source = self.path("in.bin", b"\1\2\3\4")
        flags = ["-d", "u1", "-s", "2,2", "--strides", "1,2", "--axis", "1"]
        done = tally("cumsum", source, *flags, *WIDE)
        self.assert_done(done)
        self.assertEqual(done.stdout, struct.pack("<6i", 5, 6, 9, 5, 7, 11))
        done = tally("cumsum", source, *flags, "--output-dtype", "u4", "-o", self.path("out.npy"))
        self.assert_done(done)
        self.assertIn("'<u4'", npy_parts(self.read("out.npy"))[0])

    def test_an_answer_of_the_input_s_type_is_not_used(self):
        source = self.path("in.npy", npy("|u1", (2,), b"\1\2"))
        with Server(lambda *_: sums(b"\1\3", "uint8", "1,2,1")) as s:
            done = tally("cumsum", source, "--output-dtype", "int32", url=s.url)
        self.assert_failed(done, 6, 'type "uint8"', "expected int32")
        with Server(lambda *_: sums(b"\1\3", "uint8", "1,2,1")) as s:
            done = tally("cumsum", "-d", "uint8", "-F", "raw", *WIDE, stdin=b"[1,2]", url=s.url)
        self.assert_failed(done, 6, 'type "uint8"', "expected int32")

    def test_wrong_combinations_are_refused_before_anything_is_sent(self):
        raw = self.path("in.bin", bytes(8))
        floats = self.path("in.npy", npy("<f4", (2,), bytes(8)))
        both = "include_initial and exclusive are both true: an exclusive sum begins with the init"
        for arguments, *says in (
            ([floats, "--exclusive", "--include-initial"], both),
            (["--exclusive", "--include-initial"], both),
            (
                [floats, "--output-dtype", "int64"],
                "output_dtype is int64, but elements of float32 have sums of float32, float64:",
            ),
            ([raw, "-d", "u8", "-s", "1", "--output-dtype", "int64"], "elements of uint64 have"),
            ([raw, "-d", "bool", "-s", "8", "--output-dtype", "float32"], "elements of bool have"),
            (["-d", "int8", "--output-dtype", "uint8"], "elements of int8 have sums of int8, int1"),
            ([floats, "--output-dtype", "bool"], "int64 unless another type is given"),
            ([floats, "--nan", "drop"], "--nan drop: expected propagate, zero or skip"),
            ([floats, "--initial", "x"], "initial is 'x', expected a number: the sums are of typ"),
            ([floats, "--initial", ""], "initial is '', expected a number"),
            ([floats, "--initial", "1e39"], "a number that this type holds: the sums are of typ"),
            ([raw, "-d", "bool", "-s", "8", "--initial", "1.5"], "a whole number: the sums are o"),
            (["-d", "int8", "--initial", "128"], "holds: the sums are of type int8"),
            (
                ["--initial", "ten"],
                "initial is 'ten', expected a number: the sums are of type int64",
            ),
            (["--initial", "1.5"], "initial is '1.5', expected a whole number"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_failed(self.dead("cumsum", *arguments, stdin=b"[1,2]"), 2, *says)
        done = self.dead("cumsum", "--nan", "zero", stdin=b'{"data":[1]}')
        self.assert_failed(done, 2, "write the options into it")
        flags = ["-f", "csv", "--header", "--include-initial", "--axis", "1"]
        self.assert_failed(self.dead("cumsum", *flags, stdin=b"a,b\n1,2\n"), 2, "one column more")


class Segments(Directory):
    """--offsets: each segment is summed as a line of its own."""

    OFFSETS = [0, 0, 3, 4, 4, 9, 9]

    def dead(self, *arguments, stdin=b""):
        return tally(*arguments, stdin=stdin, url="http://127.0.0.1:1")

    def offsets(self, name="offsets.npy", offsets=OFFSETS):
        if name.endswith(".npy"):
            data = struct.pack(f"<{len(offsets)}q", *offsets)
            return self.path(name, npy("<i8", (len(offsets),), data))
        return self.path(name, b"".join(b"%d\n" % offset for offset in offsets))

    def expected(self, lines, include, reverse, offsets=OFFSETS):
        """The sums of each segment of each line, concatenated."""
        pairs = list(itertools.pairwise(offsets))
        return [
            [
                total
                for begin, end in pairs
                for total in cumsum([line[begin:end]], 5, include, reverse)[0]
            ]
            for line in lines
        ]

    def test_npy_files_of_every_layout_have_the_sums_of_each_segment(self):
        seeded = random.Random(7)
        for shape, axis in (((9, 4), 0), ((4, 9), 1), ((9, 1), 0), ((9, 0), 0), ((0, 9), 1)):
            rows = [[seeded.randrange(99) for _ in range(shape[1])] for _ in range(shape[0])]
            lines = rows if axis == 1 else transposed(rows, shape[1])
            for include, reverse, fortran, part_bytes in itertools.product(
                (False, True), (False, True), (False, True), ("1", "100", "64MiB")
            ):
                sums_of = self.expected(lines, include, reverse)
                length = 9 + 6 * include
                size = (length, shape[1]) if axis == 0 else (shape[0], length)
                stored = sums_of if axis == 1 else transposed(sums_of, length)
                stored = transposed(stored, size[1]) if fortran else stored
                columns = transposed(rows, shape[1]) if fortran else rows
                data = b"".join(struct.pack(f"<{len(line)}i", *line) for line in columns)
                flags = ["--axis", str(axis), "--initial", "5", "--part-bytes", part_bytes]
                flags += ["--reverse"] if reverse else []
                flags += ["--include-initial"] if include else []
                with self.subTest(shape=shape, flags=flags, fortran=fortran):
                    done = tally(
                        *("cumsum", self.path("in.npy", npy("<i4", shape, data, fortran))),
                        *("-o", self.path("out.npy"), "--offsets", self.offsets(), *flags),
                    )
                    self.assert_done(done)
                    header, found = npy_parts(self.read("out.npy"))
                    self.assertIn(f"({size[0]}, {size[1]})", header)
                    self.assertEqual(
                        list(struct.unpack(f"<{len(found) // 4}i", found)),
                        [value for line in stored for value in line],
                    )

    def test_text_raw_and_json_have_the_same_segments(self):
        values = [3, 1, 4, 1, 5, 9, 2, 6, 5]
        sums_of = self.expected([values], True, False)[0]
        text = b"".join(b"%d\n" % value for value in values)
        flags = ["--initial", "5", "--include-initial", "--part-bytes", "8"]
        raw = struct.pack("<9q", *values)
        for name in ("offsets.npy", "offsets.txt"):
            flags_of = ["--offsets", self.offsets(name), *flags]
            done = tally("cumsum", "-f", "text", *flags_of, stdin=text)
            self.assert_done(done)
            self.assertEqual([int(line) for line in done.stdout.split()], sums_of)
            for shape in ("9", "-1"):
                done = tally("cumsum", "-d", "int64", "-s", shape, *flags_of, stdin=raw)
                self.assert_done(done)
                self.assertEqual(list(struct.unpack("<15q", done.stdout)), sums_of)
            done = tally("cumsum", *flags_of, stdin=json.dumps(values).encode())
            self.assert_done(done)
            self.assertEqual(json.loads(done.stdout), sums_of)
        done = tally(
            *("cumsum", "-f", "text", "--offsets", self.offsets(), "--reverse", "--axis", "0"),
            stdin=text,
        )
        self.assert_done(done)
        sums_of = [value - 5 for value in self.expected([values], False, True)[0]]
        self.assertEqual([int(line) for line in done.stdout.split()], sums_of)

    def test_segments_of_the_columns_of_text_go_on_without_end(self):
        offsets = self.offsets("o.txt", [0, 1, 3])
        lines = b"1 2 3\n" * 1000
        done = tally(
            *("cumsum", "-f", "text", "--axis", "1", "--offsets", offsets, "--part-bytes", "48"),
            stdin=lines,
        )
        self.assert_done(done)
        self.assertEqual(done.stdout, b"1 2 5\n" * 1000)

    def test_big_endian_offsets_and_a_pipe_are_read(self):
        array = self.path("in.npy", npy("<i8", (3,), struct.pack("<3q", 1, 2, 3)))
        swapped = npy(">i8", (3,), struct.pack(">3q", 0, 1, 3))
        for given, stdin in ((self.path("o.npy", swapped), b""), ("-", swapped), ("-", b"0\n1\n3")):
            done = tally(*("cumsum", array, "-F", "text", "--offsets", given), stdin=stdin)
            self.assert_done(done)
            self.assertEqual(done.stdout, b"1\n2\n5\n")

    def test_many_empty_segments_make_a_json_answer_longer_than_its_request(self):
        rows = json.dumps([[1]] * 300).encode()
        offsets = [0] * 300 + [1]
        flags = ["--axis", "1", "--include-initial", "--offsets", self.offsets("o.txt", offsets)]
        row = [0] * 300 + [1]
        done = tally("cumsum", *flags, stdin=rows)
        self.assert_done(done)
        self.assertEqual(json.loads(done.stdout), [row] * 300)
        whole = {"data": [[1]] * 300, "axis": 1, "include_initial": True, "offsets": offsets}
        done = tally("cumsum", stdin=json.dumps(whole).encode())
        self.assert_done(done)
        self.assertEqual(json.loads(done.stdout)["data"], [row] * 300)

    def test_an_axis_without_elements_may_have_no_segment(self):
        for array, offsets, length in (((0,), [0], 0), ((0,), [0, 0, 0], 2)):
            done = tally(
                *("cumsum", self.path("in.npy", npy("<i8", array, b"")), "--include-initial"),
                *("-F", "json", "--offsets", self.offsets("o.txt", offsets)),
            )
            self.assert_done(done)
            self.assertEqual(json.loads(done.stdout), [0] * length)

    def test_offsets_that_are_none_are_refused_before_sending(self):
        array = self.path("in.npy", npy("<i8", (3,), bytes(24)))
        for offsets, words in (
            ([1, 3], "offsets[0] is 1, expected 0"),
            ([0, 2, 1, 3], "offsets[2] is 1, less than the offset before it, 2"),
            ([0, 4], "offsets[1] is 4, beyond the axis, which has the size 3"),
            ([0, 2], "offsets[1], the last one, is 2, expected the size of the axis, 3"),
            ([], "offsets is empty"),
        ):
            for name in ("o.npy", "o.txt"):
                done = self.dead("cumsum", array, "--offsets", self.offsets(name, offsets))
                self.assert_failed(done, 2, words)
        for file, words in (
            (npy("<i4", (2,), bytes(8)), ("has int32 in 1 dimension, expected int64 in one",)),
            (npy("<i8", (1, 2), bytes(16)), ("has int64 in 2 dimensions",)),
            (npy("<i8", (2,), bytes(9)), ("16", "save it again")),
            (b"0 3\n", ("several numbers on a line",)),
            (b"0\n1.5\n3\n", ("line 2", "1.5")),
            (b"0\n3 4\n", ("line 2 has 2 fields",)),
            (b"0\nthree\n", ("line 2", "three")),
            (b"zero\n", ("offsets is empty",)),
        ):
            done = self.dead("cumsum", array, "--offsets", self.path("o", file))
            self.assert_failed(done, 2, *words)
        self.assert_failed(self.dead("cumsum", array, "--offsets", self.path("none")), 2, "none")
        self.assert_failed(
            self.dead("cumsum", "--offsets", "-", stdin=b"[1]"), 2, "standard input is the tensor"
        )

    def test_offsets_of_text_may_have_a_header(self):
        offsets = self.path("o.csv", b"start\n0\n2\n3\n")
        done = tally("cumsum", "--offsets", offsets, stdin=b"1\n2\n4\n")
        self.assert_done(done)
        self.assertEqual(done.stdout, b"1\n3\n4\n")

    def test_one_number_that_is_no_integer_makes_all_sums_of_text_float64(self):
        offsets = ["--offsets", self.offsets("o.txt", [0, 2, 4])]
        for text in (b"1\n2\n0.5\n4\n", b"1\n2\n4\n0.5\n", b"0.5\n2\n4\n1\n"):
            values = [float(line) for line in text.split()]
            expected = [values[0], values[0] + values[1], values[2], values[2] + values[3]]
            for part_bytes in ("1", "64MiB"):
                done = tally("cumsum", *offsets, "--part-bytes", part_bytes, stdin=text)
                self.assert_done(done)
                self.assertEqual([float(line) for line in done.stdout.split()], expected)
        done = tally("cumsum", *offsets, stdin=b"9007199254740993\n0\n1\n0.5\n")
        self.assert_done(done)
        self.assertEqual(float(done.stdout.split()[0]), 2.0**53)
        rows = b"1 9\n2 9\n0.5 9\n4 9\n"
        done = tally("cumsum", *offsets, stdin=rows)
        self.assert_done(done)
        self.assertEqual(done.stdout, b"1.0 9.0\n3.0 18.0\n0.5 9.0\n4.5 18.0\n")
        across = ["--axis", "1", "--offsets", self.offsets("o.txt", [0, 1, 2])]
        done = tally("cumsum", *across, stdin=rows)
        self.assert_done(done)
        self.assertEqual(done.stdout, b"1 9\n2 9\n0.5 9.0\n4.0 9.0\n")

    def test_other_columns_are_passed_on_however_long_the_axis_is(self):
        count = 5000
        offsets = ["--offsets", self.offsets("o.npy", [0, 3, count])]
        rows = [b"%d,%d,%s" % (i, i % 7, b"x" * 40) for i in range(count)]
        done = tally(
            *("cumsum", "-f", "csv", "--columns", "b", "--part-bytes", "64", *offsets),
            stdin=b"a,b,c\n" + b"\n".join(rows),
        )
        self.assert_done(done)
        values = [[i % 7 for i in range(count)]]
        sums_of = [s - 5 for s in self.expected(values, False, False, [0, 3, count])[0]]
        expected = [b"%d,%d,%s" % (i, sums_of[i], b"x" * 40) for i in range(count)]
        self.assertEqual(done.stdout.split(b"\n"), [b"a,b,c", *expected, b""])

    def test_a_bad_row_is_named_and_not_counted(self):
        offsets = ["--offsets", self.offsets("o.txt", [0, 2, 4])]
        done = tally("cumsum", *offsets, stdin=b"1\n2\nthree\n4\n")
        self.assert_failed(done, 2, "line 3", "three")

    def test_text_has_as_many_rows_as_the_last_offset_says(self):
        for offsets, lines, words in (
            (
                [0, 3],
                b"1\n2\n",
                "the last offset is 3, expected the number of rows: standard input has 2",
            ),
            (
                [0, 1],
                b"1\n2\n",
                "the last offset is 1, expected the number of rows: standard input has more",
            ),
            (
                [0],
                b"1\n2\n",
                "the last offset is 0, expected the number of rows: standard input has more",
            ),
            ([0, 3], b"", "beyond the axis, which has the size 0"),
        ):
            done = tally(
                *("cumsum", "-f", "text", "--offsets", self.offsets("o.txt", offsets)), stdin=lines
            )
            self.assert_failed(done, 2, words)
        raw = ["cumsum", "-d", "int8", "-s", "-1", "--offsets", self.offsets("o.txt", [0, 3])]
        self.assert_failed(tally(*raw, stdin=bytes(2)), 2, "ended in the middle of the tensor")
        self.assert_failed(tally(*raw, stdin=bytes(4)), 2, "more bytes")

    def test_strided_numbers_have_segments(self):
        raw = self.path("in.bin", struct.pack("<5i", 1, 0, 2, 0, 3))
        flags = ["-d", "int32", "-s", "3", "--strides", "2", "-F", "text"]
        done = tally("cumsum", raw, *flags, "--offsets", self.offsets("o.txt", [0, 1, 3]))
        self.assert_done(done)
        self.assertEqual(done.stdout, b"1\n2\n5\n")

    def test_a_whole_request_has_its_own_offsets(self):
        offsets = self.offsets("o.txt", [0, 2])
        done = self.dead("cumsum", "--offsets", offsets, stdin=b'{"data":[1,2]}')
        self.assert_failed(done, 2, "write the options into it")


if __name__ == "__main__":
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2)
    result = unittest.main(exit=False, testRunner=runner).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)
