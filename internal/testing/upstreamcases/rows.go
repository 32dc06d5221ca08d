package upstreamcases

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// Row is one sample: the input of the original program, and its result.
type Row[C any] struct {
	Name string
	// Case is the input. Members that begin with expect or want are the output.
	Case C
	// Observed is what the program sent and left behind.
	Observed []Observation
}

// Observation is one thing that the original program did.
type Observation struct {
	What  string
	Value json.RawMessage
}

// JSON reads a file of samples that has no rows.
func JSON(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(Path(t, name))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Rows reads a file of samples. A name that ends in .jsonl has one case in a line.
func Rows[C any](t testing.TB, name string) []Row[C] {
	t.Helper()
	file, err := os.Open(Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var content struct{ Cases []Row[C] }
	if name[len(name)-1] != 'l' {
		err = json.NewDecoder(file).Decode(&content)
	}
	for lines := bufio.NewScanner(file); err == nil && lines.Scan(); {
		var row Row[C]
		var id struct{ ID string }
		if err = json.Unmarshal(lines.Bytes(), &row.Case); err == nil {
			err = json.Unmarshal(lines.Bytes(), &id)
		}
		row.Name = id.ID
		content.Cases = append(content.Cases, row)
	}
	if err != nil || len(content.Cases) == 0 {
		t.Fatalf("%s: %d rows: %v", name, len(content.Cases), err)
	}
	return content.Cases
}

// Same compares a row's expectation with the result, as JSON.
func Same(t testing.TB, what string, got, want any) {
	t.Helper()
	a, err1 := json.Marshal(got)
	b, err2 := json.Marshal(want)
	if err1 != nil || err2 != nil || string(a) != string(b) {
		t.Errorf("%s\ngot  %s\nwant %s", what, a, b)
	}
}
