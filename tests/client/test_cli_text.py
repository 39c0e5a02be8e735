"""`tally cumsum` of text and CSV: dialects, types, headers, columns, and hostile input.

Plain Python, without packages:  TALLY=build/bin/tally TALLY_URL=... python3 tests/client/test_cli_text.py
"""

import json
import random
import select
import struct
import subprocess
import sys
import time
import unittest
from fractions import Fraction

from test_cli import TALLY, URL, Directory, npy, npy_parts, tally


def int64s(*numbers):
    return struct.pack(f"<{len(numbers)}q", *numbers)


class Text(Directory):
    def done(self, text, *flags):
        text = text.encode() if isinstance(text, str) else text
        return tally("cumsum", *flags, stdin=text)

    def sums(self, text, *flags):
        done = self.done(text, *flags)
        self.assert_done(done)
        return done.stdout.decode()

    def assert_all(self, *cases):
        for text, flags, expected in cases:
            with self.subTest(text=text, flags=flags):
                self.assertEqual(self.sums(text, *flags.split()), expected)

    def assert_refused(self, *cases):
        """Check the message of each refusal, and that the rows before the bad one were
        printed."""
        for text, flags, rows, *says in cases:
            with self.subTest(text=text[:40], flags=flags):
                done = self.done(text, *flags.split())
                self.assert_failed(done, 2, *says)
                self.assertEqual(done.stdout.decode(), rows)

    # -- formats --

    def test_the_format_is_that_of_what_is_read(self):
        self.assert_all(
            ("1\n2\n3\n", "", "1\n3\n6\n"),
            ("5", "", "5\n"),
            ("1 2\n3 4\n", "", "1 2\n4 6\n"),
            ("a,b\n1,2\n3,4\n", "", "a,b\n1,2\n4,6\n"),
            ("[[1,2],[3,4]]", "", "[[1,2],[4,6]]\n"),
            (' {"data":[1,2],"dtype":"int8"}', "", '{"dtype":"int8","shape":[2],"data":[1,3]}\n'),
            ("\ufeff1\n2\n", "", "1\n3\n"),
        )
        for name in ("x.csv", "X.CSV"):
            source = self.path(name, b"1,5\n2,5\n")
            self.assertEqual(tally("cumsum", source).stdout, b"1,5\n3,10\n")
        named = self.path("x", npy("<i8", (2,), int64s(1, 2)))
        self.assertEqual(tally("cumsum", named, "-F", "text").stdout, b"1\n3\n")
        for text, *says in (
            (b"hello\n", "byte 1 is 'h', expected NPY, a JSON array such as", "numbers in columns"),
            (b"1\n\0002\n", "byte 3 is 0x00"),
            (b"\x89PNG\r\n\x1a\n1", "byte 7 is 0x1A"),
            (
                b"\x1f\x8b\x08\0\0\0\0\0",
                "looks like gzip data: decompress it",
                "zcat FILE | tally cumsum",
            ),
            (b"{'data': [1]}", "looks like a printed Python dictionary"),
            (b"", "is empty"),
        ):
            with self.subTest(text):
                self.assert_failed(tally("cumsum", stdin=text, url="http://127.0.0.1:1"), 2, *says)

    def test_the_format_of_a_stream_is_known_from_its_first_number(self):
        for text, answered in ((b"7\n", b"7\n"), (b"day,rain\n1,2\n", b"day,rain\n1,2\n")):
            with self.subTest(text):
                process = subprocess.Popen(
                    [TALLY, "cumsum", "-u", URL], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
                try:
                    for byte in text:
                        process.stdin.write(bytes([byte]))
                        process.stdin.flush()
                    self.assertEqual(process.stdout.read(len(answered)), answered)
                finally:
                    process.kill()
                    process.communicate()

    def test_json_and_other_formats_become_text_and_csv(self):
        source = self.path("in.json", b"[[1,2.5],[3,4]]")
        for flags, expected in (
            (["-F", "csv"], b"1.0,2.5\n4.0,6.5\n"),
            (["-F", "text"], b"1.0 2.5\n4.0 6.5\n"),
            (["-F", "csv", "--decimal", ","], b"1,0;2,5\n4,0;6,5\n"),
            (["-F", "csv", "-a", "1", "-d", "float32"], b"1.0,3.5\n3.0,7.0\n"),
        ):
            with self.subTest(flags):
                self.assertEqual(tally("cumsum", source, *flags).stdout, expected)
        self.assert_done(tally("cumsum", source, "-o", self.path("out.csv")))
        self.assertEqual(self.read("out.csv"), b"1.0,2.5\n4.0,6.5\n")
        self.assert_all(
            ("[1,2]", "-F text", "1\n3\n"),
            ("[]", "-F csv", ""),
            ("[[[1,2]],[[3,4]]]", "-F csv", "1,2\n4,6\n"),
            ("[1,2]", "-d uint8 -F csv", "1\n3\n"),
        )
        done = self.done("[1,2]", *["-F", "csv", "--output-strides", "2"])
        self.assert_failed(done, 2, "a result with output strides becomes json, npy or raw")
        raw = self.path("x.bin", bytes([1, 2, 3, 4]))
        flags = ["-d", "uint8", "-s", "2,2", "--strides", "1,2", "-F", "csv"]
        self.assertEqual(tally("cumsum", raw, *flags).stdout, b"1,3\n3,7\n")
        source = self.path("in.csv", b"1,2\n3,4\n5,6\n")
        self.assert_done(tally("cumsum", source, "-o", self.path("out.npy"), "--part-bytes", "16"))
        header, data = npy_parts(self.read("out.npy"))
        self.assertIn("(3, 2)", header)
        self.assertEqual(data, int64s(1, 2, 4, 6, 9, 12))
        self.assert_done(tally("cumsum", self.path("out.npy"), "-o", self.path("out.csv")))
        self.assertEqual(self.read("out.csv"), b"1,2\n5,8\n14,20\n")
        self.assert_all(
            ("1 2\n3 4\n", "-F json", "[[1,2],[4,6]]\n"),
            ("1\n2\n", "-F json", "[1,3]\n"),
            ("", "-f text -F json", "[]\n"),
        )

    # -- dialects --

    def test_the_result_has_the_delimiter_of_the_input(self):
        self.assert_all(
            ("1\t2\n3\t4\n", "", "1\t2\n4\t6\n"),
            ("a\tb\n1\t2\n", "-f csv", "a\tb\n1\t2\n"),
            ("1;2\n3;4\n", "", "1;2\n4;6\n"),
            ("1|2\n3|4\n", "", "1|2\n4|6\n"),
            ("1, 2, 3\n", "", "1,2,3\n"),
            ("1 ,\t2\n3 , 4\n", "", "1,2\n4,6\n"),
            ("   1   2\n  30  40\n", "", "1 2\n31 42\n"),
            ("1:2\n3:4\n", "--delimiter :", "1:2\n4:6\n"),
            ("1 2\n3 4\n", "-F csv", "1,2\n4,6\n"),
            ("1\t2\n", "-F csv", "1,2\n"),
            ("1;2\n", "-f csv -F text", "1 2\n"),
            ("a;b,c\n1;2\n", "--delimiter ; -F csv", "a;b,c\n1;2\n"),
            ('a;"b;c"\n1;2\n', "-f csv -F text", 'a "b;c"\n1 2\n'),
        )

    def test_a_delimiter_in_a_name_is_quoted_where_the_result_would_cut_it(self):
        self.assert_all(
            ("a\tb c\n1\t2\n", "-f csv -F text", 'a "b c"\n1 2\n'),
            (
                "a;b c;x\n1;low high;2\n",
                "-f csv -F text --columns 1,3",
                'a "b c" x\n1 "low high" 2\n',
            ),
        )

    def test_a_decimal_comma(self):
        self.assert_all(
            ("12,60\n7,55\n", "--decimal ,", "12,6\n20,15\n"),
            ("1,5;2\n2,5;3\n", "--decimal ,", "1,5;2,0\n4,0;5,0\n"),
            ("1,5 2,5\n", "--decimal ,", "1,5 2,5\n"),
            ("1,5\n", "-f csv --decimal ,", "1,5\n"),
            ("a;b\n1;0,25\n1;0,5\n", "-f csv --decimal , --columns b", "a;b\n1;0,25\n1;0,75\n"),
            ('"1,5";"2"\n', "--decimal ,", "1,5;2,0\n"),
            (",5\n1,\n-0,5\n1e-3\n", "--decimal ,", "0,5\n1,5\n1,0\n1,001\n"),
            ("1,5\n", "--decimal , -F json", "[1.5]\n"),
        )
        self.assert_refused(
            ("1.5;2\n", "--decimal ,", "", "'1.5'", "--decimal , allows no point in a number"),
            ("1,5;2\n1.234,5;2\n", "--decimal ,", "1,5;2,0\n", "line 2", "'1.234,5'"),
            ("1\n", "--decimal , --delimiter ,", "", "--delimiter and --decimal are both ','"),
            ("1\n", "--decimal x", "", "--decimal x: expected . or ,"),
        )

    def test_text_that_can_be_one_number_or_several_is_refused(self):
        for text in (
            "1,5\n",
            "12,60\n7,55\n",
            "  -12,60 \r\n7,55\n",
            "0,05\n",
            "1,50E+03\n",
            "1,234,567\n",
            "+1,234,567.5\n",
            "1.234,56\n",
            "1.234.567,89\n",
            "\n12,60\n",
            "\ufeff12,60\n",
        ):
            for flags in "", "-f text", "-f text -d float32":
                with self.subTest(text=text, flags=flags):
                    done = self.done(text, *flags.split())
                    line = 2 if text[0] == "\n" else 1
                    self.assert_failed(done, 2, f"line {line} is '", "which can be several numbers")
                    self.assertIn(b"-f csv if commas separate numbers", done.stderr)
                    self.assertIn(b"--decimal , if they are decimal", done.stderr)
                    self.assertEqual(done.stdout, b"")
        self.assert_all(
            ("12, 60\n7, 55\n", "", "12,60\n19,115\n"),
            ("12,-60\n", "", "12,-60\n"),
            ("0.5,20\n", "", "0.5,20.0\n"),
            ("12,60,3\n", "", "12,60,3\n"),
            ("12,60\n7,55\n", "--delimiter ,", "12,60\n19,115\n"),
            ("12,60\n7,55\n", "--decimal .", "12,60\n19,115\n"),
            ("12,60\n7,55\n", "-f csv", "12,60\n19,115\n"),
            ("a,b\n12,60\n", "", "a,b\n12,60\n"),
        )
        self.assert_refused(
            ("price\n12,60\n", "", "", "line 2", "'12,60'", "give --decimal , for decimal commas"),
            ("price\n12,60\n", "-f csv", "", "line 2 has 2 fields, and the first line has 1"),
            ("1,5 2,5\n", "", "", "line 1 has '5 2'", "--delimiter, or --decimal ,"),
            ("1 2\n3,5 4\n", "", "1 2\n", "line 2 has '3,5'", "--decimal ,"),
            ("1 000;2\n", "", "", "line 1 has '1 000'"),
            ("1,5;2\n", "--delimiter ;", "", "'1,5'", "without separators of thousands"),
            ("12,60;7,55\n", "-f csv", "", "'60;7'", "--delimiter, or --decimal ,"),
        )

    def test_quoted_fields(self):
        """Quoted fields as RFC 4180 defines them, with line breaks."""
        self.assert_all(
            ('"1","2"\n"3",4\n', "-f csv", "1,2\n4,6\n"),
            ('"a","b ""q"""\n1,2\n', "-f csv", '"a","b ""q"""\n1,2\n'),
            (
                'name,"price, net"\n"a ""b"", c",1.5\n',
                "--columns 2",
                'name,"price, net"\n"a ""b"", c",1.5\n',
            ),
            (
                'x,n\n"two\nlines",1\n"and\r\nthree\n",2\n',
                "--columns n",
                'x,n\n"two\nlines",1\n"and\r\nthree\n",3\n',
            ),
            ('x,n\n5" pipe,1\n6",2\n', "--columns n", 'x,n\n5" pipe,1\n6",3\n'),
            ('x;n\n "a;b" ; "1" \n', "--columns n", 'x;n\n "a;b" ;1\n'),
            ('"1" "2"\n', "", "1 2\n"),
            ('"",1\n', "--columns 2", '"",1\n'),
        )
        self.assert_refused(
            (
                'n,x\n1,a\n2,"b\n3,c\n',
                "--columns n",
                "n,x\n1,a\n",
                "line 3 has a quote that is not closed",
            ),
            ('n,x\n1,"a\nb"\nz,c\n', "--columns n", 'n,x\n1,"a\nb"\n', "line 4 has 'z'"),
            ('1,"2"3\n', "-f csv", "", "line 1 has '\"2\"3'"),
            ('1\n"', "-f csv", "1\n", "line 2 has a quote that is not closed"),
        )

    # -- types --

    def test_spellings_of_numbers(self):
        self.assert_all(
            ("1 2 \r\r\n3 4\r", "", "1 2\n4 6\n"),
            ("1 2\n\n \n3 4\n", "", "1 2\n4 6\n"),
            ("1 2\n3 4\n", "-a 1", "1 3\n3 7\n"),
            ("1 2\n3 4\n", "--reverse -a -1", "3 2\n7 4\n"),
            ("1.\n.5\n+2\n-.5\n007\n", "", "1.0\n1.5\n3.5\n3.0\n10.0\n"),
            ("+1\n007\n-0\n", "", "1\n8\n8\n"),
            ("1e3\n-1E-3\n", "", "1000.0\n999.999\n"),
            ("0.1\n0.2\n", "-d float32", "0.1\n0.3\n"),
            ("1\ninf\n-Infinity\n", "", "1\nInfinity\nNaN\n"),
            ("-inf\n-nan\n", "-f text", "-Infinity\nNaN\n"),
            ("1.5\nNaN\n1\n", "", "1.5\nNaN\nNaN\n"),
            ("9223372036854775806\n1\n", "", "9223372036854775806\n9223372036854775807\n"),
            ("18446744073709551615\n", "-d uint64", "18446744073709551615\n"),
            ("3.0\n4e0\n", "-d int8", "3\n7\n"),
            ("true\nFALSE\n1\n", "-f text", "1\n1\n2\n"),
            ("true\nfalse\ntrue\n", "-f text -d bool --output-dtype int32", "1\n1\n2\n"),
            ("true 0.5\n", "", "1.0 0.5\n"),
            ("", "-f text", ""),
            ("\n\n", "-f text", ""),
            ("a,b\n", "-f csv", "a,b\n"),
        )

    def test_the_type_follows_the_numbers(self):
        """The sums are int64 up to the first number that is not written as an integer, then
        float64."""
        self.assert_all(
            ("0\n0.5\n1\n", "", "0\n0.5\n1.5\n"),
            ("1 2\n3 4.5\n5 6\n", "", "1 2\n4.0 6.5\n9.0 12.5\n"),
            ("1 2\n3 4.5\n5 6\n", "-a 1", "1 3\n3.0 7.5\n5.0 11.0\n"),
            ("1\n2\n0.5\n4\n", "--exclusive", "0\n1\n3.0\n3.5\n"),
            ("5\n2\n0.5\n", "--initial 10 --include-initial", "10\n15\n17\n17.5\n"),
            ("5\n2\n", "--initial 0.5", "5.5\n7.5\n"),
            ("1\n2\n", "--output-dtype float64", "1.0\n3.0\n"),
            ("1\n1e2\n", "", "1\n101.0\n"),
            ("0\n0.5\n", "-F json", "[0,0.5]\n"),
            ("-3\n-0.0\n", "", "-3\n-3.0\n"),
            # float64 cannot represent 2^53+1, but the later sums still contain it exactly.
            (
                "9007199254740993\n0.5\n-9007199254740992\n",
                "",
                "9007199254740993\n9007199254740994.0\n1.5\n",
            ),
            (
                "-9007199254740993\n0.25\n9007199254740992\n",
                "",
                "-9007199254740993\n-9007199254740992.0\n-0.75\n",
            ),
            ("x,n\na,1\nb,0.5\n", "--columns n", "x,n\na,1\nb,1.5\n"),
        )
        self.assert_refused(
            ("1\n0.5\n", "-d int64", "1\n", "line 2 has '0.5'", "int64; give --dtype float64"),
            ("1\n0.5\n", "--output-dtype int64", "1\n", "output_dtype is int64"),
            ("1\n0.5\n", "-F raw -o /dev/null", "", "line 2 has '0.5'", "give --dtype float64"),
        )

    def test_many_integers_go_on_as_floats_in_parts(self):
        rng = random.Random(5)
        rows = [[rng.randrange(-(1 << 59), 1 << 59) for _ in range(3)] for _ in range(200)]
        rows += [
            [rng.uniform(-1, 1) * 2.0 ** rng.randrange(0, 60) for _ in range(3)] for _ in range(200)
        ]
        text = "".join(" ".join(map(repr, row)) + "\n" for row in rows)
        shown = self.sums(text, "--part-bytes", "96").splitlines()
        totals = [Fraction(0)] * 3
        for i, (row, line) in enumerate(zip(rows, shown)):
            totals = [total + Fraction(value) for total, value in zip(totals, row)]
            if i < 200:
                wrapped = [(int(t) + (1 << 63)) % (1 << 64) - (1 << 63) for t in totals]
                self.assertEqual(wrapped, [int(t) for t in totals], "the test stays in int64")
                self.assertEqual(line, " ".join(str(int(t)) for t in totals))
            else:
                self.assertEqual(list(map(float, line.split())), [float(t) for t in totals])
        self.assertEqual(len(shown), len(rows))

    def test_missing_values_are_nan(self):
        table = "a,b\n1,NA\n2,3\n,4\nnull,\n"
        self.assert_all(
            (table, "-f csv --nan zero", "a,b\n1.0,0.0\n3.0,3.0\n3.0,7.0\n3.0,7.0\n"),
            (table, "-f csv --nan skip", "a,b\n1.0,NaN\n3.0,3.0\nNaN,7.0\nNaN,NaN\n"),
            (table, "-f csv --nan propagate", "a,b\n1.0,NaN\n3.0,NaN\nNaN,NaN\nNaN,NaN\n"),
            ("1\nN/A\n-\n2\n", "--nan skip", "1\nNaN\nNaN\n3.0\n"),
            ("1\t\t3\n4\t5\t6\n", "--nan zero", "1.0\t0.0\t3.0\n5.0\t5.0\t9.0\n"),
        )
        self.assert_refused(
            ("1\nNA\n2\n", "", "1\n", "line 2 has the missing value 'NA': give --nan zero"),
            ("1,2\n3,\n", "-f csv", "1,2\n", "line 2 has an empty field: give --nan zero"),
            ("NA,1\n2,3\n", "", "", "line 1 has the missing value 'NA'"),
            ("1\t\t3\n", "", "", "line 1 has an empty field"),
            ("1\nNA\n", "-d int8 --nan zero", "1\n", "line 2", "an integer type has no NaN"),
        )

    # -- headers and columns --

    def test_a_first_line_with_letters_is_a_header(self):
        self.assert_all(
            ("total price\n1 2\n", "", "total price\n1 2\n"),
            ("total price\n1\n", "-f csv", "total price\n1\n"),
            (",a,b\n0,1,2\n", "", ",a,b\n0,1,2\n"),
            ('"a","b"\n1,2\n', "", '"a","b"\n1,2\n'),
            ("größe\n1\n", "", "größe\n1\n"),
            ("Na,K,Cl\n1,2,3\n", "", "Na,K,Cl\n1,2,3\n"),
            ("year,2020\n1,2\n", "", "year,2020\n1,2\n"),
            ("2020,2021\n1,2\n3,4\n", "--header -f csv", "2020,2021\n1,2\n4,6\n"),
            ("\ufeffx,y\r\n1,2\r\n", "", "x,y\n1,2\n"),
            ("x,y\n1,2\n", "-F json", "[[1,2]]\n"),
        )
        self.assert_refused(
            ("a,b\nc,d\n", "-f csv", "", "line 2 has 'c'", "--columns names the columns to sum"),
            ("1e5\nx\n", "", "100000.0\n", "line 2 has 'x'"),
            ("2024-01-01\n", "", "", "line 1 has '2024-01-01'"),
            ("a,b\n1,2\n", "-f csv -a 1 --include-initial", "", "one column more"),
        )

    def test_columns_are_summed_and_the_others_passed_on(self):
        table = 'day,rain,"wind, max",note\n2024-01-01,1,2.5,"a, b"\n2024-01-02, 3 ,4,\n'
        header = 'day,rain,"wind, max",note\n'
        both = header + '2024-01-01,1.0,2.5,"a, b"\n2024-01-02,4.0,6.5,\n'
        self.assert_all(
            (table, "--columns 2,3", both),
            (table, "-f csv --columns 3,rain", both),
            (table, "--columns rain", header + '2024-01-01,1,2.5,"a, b"\n2024-01-02,4,4,\n'),
            (table, "--columns 2,3 -F json", "[[1.0,2.5],[4.0,6.5]]\n"),
            (table, "--columns rain -F json", "[1,4]\n"),
            ("x 1 y 2\nx 3 y 4\n", "--columns 2,4", "x 1 y 2\nx 4 y 6\n"),
            ("x 1 y 2\nx 3 y 4\n", "--columns 2,4 -a 1", "x 1 y 3\nx 3 y 7\n"),
            ("a,b,a\n1,2,3\n4,5,6\n", "--columns a", "a,b,a\n1,2,3\n5,5,9\n"),
            ("id\tn\nx\t1\ny\t2\n", "--columns n", "id\tn\nx\t1\ny\t3\n"),
            ("a, b ,c\n 1, x  y ,2\n3,  z,4 \n", "--columns a,c", "a, b ,c\n1, x  y ,2\n4,  z,6\n"),
            ("a, b\n1, x\n", "-f csv --columns a -F text", "a b\n1 x\n"),
            ("d,n\nx,1\n\ny,2\n", "--columns n", "d,n\nx,1\ny,3\n"),
            (
                table,
                "--columns rain --part-bytes 1",
                header + '2024-01-01,1,2.5,"a, b"\n2024-01-02,4,4,\n',
            ),
            ("é\xff,1\n".encode("latin1"), "-f csv --columns 2 -F json", "[1]\n"),
        )
        done = self.done(b"n,x\n1,\xff\xfe\n2,\xe9\n", "--columns", "n")
        self.assertEqual(done.stdout, b"n,x\n1,\xff\xfe\n3,\xe9\n")
        self.assert_refused(
            (table, "--columns 5", "", "no column '5': the first line has 4 fields"),
            (table, "--columns 0", "", "no column '0'"),
            (
                table,
                "--columns snow",
                "",
                "no column 'snow': the first line has 4 fields: day,rain",
            ),
            (table, "--columns 2,", "", "no column ''"),
            (table, "--columns 1", "", "line 2 has '2024-01-01'"),
            ("a,b\n1,2\n3,x\n", "--columns 2", "a,b\n1,2\n", "line 3 has 'x'"),
            ("a,b\n1,2\n3\n", "--columns 2", "a,b\n1,2\n", "line 3 has 1 field, and the first"),
            (table, "--columns 2 --include-initial", "", "--include-initial makes one sum more"),
            ("[1]", "--columns 1", "", "--columns is for text and CSV"),
        )

    # -- streams --

    def test_every_line_is_answered_as_it_comes(self):
        process = subprocess.Popen(
            [TALLY, "cumsum", "-u", URL, "-f", "csv"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        process.stdin.write(b"a,b\n")
        for i in range(1, 6):
            process.stdin.write(f"{i},0.5\n".encode())
            process.stdin.flush()
            if i == 1:
                self.assertEqual(process.stdout.readline(), b"a,b\n")
            self.assertEqual(process.stdout.readline(), f"{i * (i + 1) / 2},{i / 2}\n".encode())
        process.stdin.close()
        self.assertEqual((process.stdout.read(), process.wait()), (b"", 0))
        process.stdout.close()

    def test_a_complete_line_is_answered_within_flush_ms(self):
        flush_s = 3
        raw = ["-f", "raw", "-d", "int64", "-s", "-1"]
        for name, arguments, line, answer, unbroken in (
            ("a line and then none", ["-f", "csv"], b"1\n", b"1\n", False),
            ("lines without a pause", ["-f", "csv"], b"1\n", b"1\n", True),
            ("raw numbers without a pause", raw, int64s(1), int64s(1), True),
        ):
            with self.subTest(name):
                process = subprocess.Popen(
                    [TALLY, "cumsum", "-u", URL, *arguments, "--flush-ms", str(1000 * flush_s)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    bufsize=0,
                )
                try:
                    start = time.monotonic()
                    sent = 0
                    while sent == 0 or time.monotonic() - start < 2 * flush_s:
                        if sent == 0 or unbroken:
                            process.stdin.write(line)
                            sent += 1
                        if select.select([process.stdout], [], [], 0.02)[0]:
                            break
                    self.assertLess(time.monotonic() - start, flush_s)
                    self.assertEqual(process.stdout.read(len(answer)), answer)
                finally:
                    process.kill()
                    process.wait()
                    process.stdin.close()
                    process.stdout.close()

    def test_good_rows_of_parts_before_a_bad_one_are_printed(self):
        """The rows are printed even if the command reads the bad row while two parts are in
        flight."""
        rows = 2000
        text = "".join(f"{i} 1\n" for i in range(rows)) + "x 1\n" + "1 1\n" * 100
        for axis in ("0", "1"):
            done = self.done(text, "-a", axis, "--part-bytes", "256")
            self.assert_failed(done, 2, f"line {rows + 1} has 'x'")
            lines = done.stdout.decode().splitlines()
            self.assertEqual(len(lines), rows)
            total = sum(range(rows)) if axis == "0" else rows - 1
            self.assertEqual(lines[-1].split()[0], str(total))

    def test_json_is_complete_where_a_row_is_bad(self):
        for text, flags, says, expected in (
            ("1\n2\nx\n", [], "line 3 has 'x'", [1, 3]),
            ("1 2\n3 4\n5\n", [], "line 3 has 1 field", [[1, 2], [4, 6]]),
            ("1 2\n3 4\n5 x\n", ["-a", "1"], "line 3 has 'x'", [[1, 3], [3, 7]]),
            ("1\n2\nx\n", ["--part-bytes", "8"], "line 3 has 'x'", [1, 3]),
        ):
            with self.subTest(text=text, flags=flags):
                done = self.done(text, "-F", "json", *flags)
                self.assert_failed(done, 2, says)
                self.assertEqual(json.loads(done.stdout), expected)
                self.assertTrue(done.stdout.endswith(b"]\n"))
                out = self.path("out.json")
                self.assert_failed(self.done(text, "-o", out, *flags), 2, says)
                self.assertEqual(self.files(), [])  # a file is written as a whole or not at all
        done = self.done("x\n1\ny\n", "-F", "json")
        self.assert_failed(done, 2, "line 3 has 'y'")
        self.assertEqual(json.loads(done.stdout), [1])
        done = self.done("+-1\n", "-f", "text", "-F", "json")
        self.assertEqual((done.returncode, done.stdout), (2, b""))

    # -- hostile input --

    def test_hostile_input_is_named_by_its_line(self):
        self.assert_refused(
            ("1\n2\nx\n", "", "1\n3\n", "line 3 has 'x'"),
            (
                "1 2\n3\n",
                "",
                "1 2\n",
                "line 2 has 1 field, and the first line has 2 (separated by blanks)",
            ),
            (
                "1,2,3\n3\n",
                "",
                "1,2,3\n",
                "line 2 has 1 field, and the first line has 3 (separated by commas",
            ),
            (
                "1,2,3\n",
                "-f csv --columns 4",
                "",
                "no column '4': the first line has 3 fields: 1,2,3",
            ),
            ("a,b\n1,2\n", "--columns 0", "", "no column '0': the first line has 2 fields: a,b\n"),
            ("d,p\n2026-01-02,5\n", "", "", "'2026-01-02'", "; --columns names the columns"),
            ("d,p\n1/2/26 9:00,5\n", "", "", "'1/2/26 9:00'", "; --columns names the columns"),
            ("p;q\n1,5;2\n", "", "", "without separators of thousands\n"),
            (b"1\n\0\n", "-f csv", "1\n", "line 2 has a NUL byte: is it text?"),
            (b"1\n2\n\xff\xfe\n", "", "1\n3\n", "line 3 has '??'"),
            (
                "\ufeff1\n".encode("utf-16"),
                "-f text",
                "",
                "line 1 has a NUL byte; it is UTF-16 text",
            ),
            ("1\n\x1b[31m\n", "-f text", "1\n", "line 2 has '?[31m'"),
            ("1 2\r3 4\r", "", "", "line 1 has a carriage return"),
            ('1\n"x"\n', "", "1\n", "line 2 has 'x', which"),
            ('1\n""\n', "", "1\n", "line 2 has an empty field: give --nan"),
            ('1\n"NA"\n', "", "1\n", "line 2 has the missing value 'NA': give --nan"),
            ("1,2,3\n3,\r4,5\n", "", "1,2,3\n", "line 2 has a carriage return"),
            ("1\n9223372036854775808\n", "", "1\n", "line 2", "give --dtype uint64\n"),
            (
                "18446744073709551616\n",
                "",
                "",
                "line 1",
                "float64, which rounds integers beyond 2^53",
            ),
            (
                "300\n",
                "-d int8",
                "",
                "'300', which is not a number of type int8; give --dtype int64\n",
            ),
            ("-1\n", "-d uint8", "", "type uint8; give --dtype int64\n"),
            ("+1.5\n", "-d int32", "", "type int32; give --dtype float64\n"),
            ("nan\n", "-f text -d int32", "", "type int32; give --dtype float64\n"),
            ("70000\n", "-d float16", "", "type float16; give --dtype float64\n"),
            (
                "1.5\n1e999\n",
                "",
                "1.5\n",
                "line 2 has '1e999', which is not a number of type float64\n",
            ),
            ("2\n", "-d bool", "", "line 1 has '2', which is not a number of type bool"),
            ("1.5\n+-1\n", "", "1.5\n", "'+-1'"),
            ("1.5\n-.\n", "", "1.5\n", "'-.'"),
            ("1.5\n.e5\n", "", "1.5\n", "'.e5'"),
            ("1\n+" + 700 * "1" + "\n", "", "1\n", f"line 2 has '+{39 * '1'}'"),
            ("1\n", "--reverse", "", "text is read from its start", "tac FILE | tally", "| tac,"),
            ("1\n", "--delimiter ab", "", "--delimiter ab"),
            ("1\n", "--delimiter \\t", "", "(a tab is $'\\t')"),
            ("1\n", '--delimiter "', "", "--delimiter"),
            ("1\n2\n", "--shape 1,2", "", "leave out --shape"),
        )

    def test_a_million_columns_are_summed(self):
        count = 10**6
        row = " ".join(["1"] * count) + "\n"
        shown = self.sums(row + row)
        self.assertEqual(shown, row + row.replace("1", "2"))
        done = self.done(row + row[2:], "-F", "raw")
        self.assert_failed(done, 2, "line 2 has 999999 fields, and the first line has 1000000")

    def test_a_line_without_end_is_refused(self):
        """The rows before the endless line are printed."""
        process = subprocess.Popen(
            [TALLY, "cumsum", "-u", URL, "-f", "text"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            process.stdin.write(b"1\n2\n")
            for _ in range(140):
                process.stdin.write(b"1" * (1 << 20))
        except BrokenPipeError:
            pass
        shown, told = process.communicate(timeout=120)
        self.assertEqual((process.returncode, shown), (2, b"1\n3\n"), told)
        self.assertIn(b"line 3 has more than", told)

    def test_a_quote_without_end_is_refused_before_the_input_ends(self):
        process = subprocess.Popen(
            [TALLY, "cumsum", "-u", URL, "-f", "csv", "--columns", "1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            process.stdin.write(b'1,a\n2,"b\n')
            for _ in range(40):
                process.stdin.write(b"1,a\n" * (1 << 18))
        except BrokenPipeError:
            pass
        try:
            self.assertEqual(process.wait(60), 2)
            self.assertEqual(process.stdout.read(), b"1,a\n")
            self.assertIn(b"line 2 has a quote that is not closed", process.stderr.read())
        finally:
            process.kill()
            process.communicate()

    def test_a_file_that_is_something_else_than_text_is_named(self):
        source = self.path("in.csv", b"[[1,2],[3,4]]\n")
        self.assert_failed(tally("cumsum", source), 2, "  it looks like JSON: give --format json")
        packed = self.path("in.csv", b"\x1f\x8b\x08\0" + bytes(20))
        self.assert_failed(tally("cumsum", packed), 2, "line 1 has a NUL byte", "zcat FILE | tally")


if __name__ == "__main__":
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2)
    result = unittest.main(exit=False, testRunner=runner).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)
