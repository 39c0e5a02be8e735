// A float32 tensor as raw bytes. go run cumsum.go
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

func cumsum(url, shape string, axis int, numbers []float32) ([]float32, error) {
	var body bytes.Buffer
	if err := binary.Write(&body, binary.LittleEndian, numbers); err != nil {
		return nil, err
	}
	query := "/v1/cumsum?dtype=float32&shape=" + shape + "&axis=" + strconv.Itoa(axis)
	answer, err := http.Post(url+query, "application/octet-stream", &body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return nil, fmt.Errorf("%s: %s", answer.Status, text)
	}
	sums := make([]float32, len(numbers))
	return sums, binary.Read(answer.Body, binary.LittleEndian, sums)
}

func main() {
	url := os.Getenv("TALLY_URL")
	if url == "" {
		url = "http://127.0.0.1:8000"
	}
	sums, err := cumsum(url, "2,3", 1, []float32{1, 2, 3, 10, 20, 30})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, sum := range sums {
		fmt.Print(sum, " ")
	}
	fmt.Println()
}
