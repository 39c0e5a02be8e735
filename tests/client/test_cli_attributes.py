"""`tally cumsum` with --output-dtype, --nan, --initial and --include-initial, and of booleans.

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
        """Without a server: whatever is refused was refused before anything was sent."""
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
        request = b'{"data":[1,2],"shape":[2,1],"axis":-1,"include_initial":true}'
        done = tally("cumsum", "-F", "raw", stdin=request)
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
        with Server(lambda *_: sums(b"\1\3", "uint8", "2")) as s:
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
            (["--initial", "ten"], "initial is 'ten', expected a number such as 10, 1.5 or NaN"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_failed(self.dead("cumsum", *arguments, stdin=b"[1,2]"), 2, *says)
        done = self.dead("cumsum", "--nan", "zero", stdin=b'{"data":[1]}')
        self.assert_failed(done, 2, "write the options into it")
        flags = ["-f", "csv", "--header", "--include-initial", "--axis", "1"]
        self.assert_failed(self.dead("cumsum", *flags, stdin=b"a,b\n1,2\n"), 2, "one column more")


if __name__ == "__main__":
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2)
    result = unittest.main(exit=False, testRunner=runner).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)
