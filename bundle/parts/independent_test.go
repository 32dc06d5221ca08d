package parts_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/bundle/parts"
)

// part is one as docs/format.md describes it: what follows reads parts by that page alone.
type part struct {
	number, data, total int
	size, partSize      int
	block               int
	table, blocks       []byte
}

func parsePart(t *testing.T, file []byte) part {
	t.Helper()
	if string(file[:16]) != "sealift.part/v1\n" {
		t.Fatal("no magic")
	}
	length, number, text := int(binary.BigEndian.Uint32(file[16:])), int(binary.BigEndian.Uint32(file[20:])), int(binary.BigEndian.Uint32(file[24:]))
	head := file[:length]
	if !bytes.Equal(head, file[len(file)-length:]) {
		t.Fatal("the end has another head")
	}
	sum := sha256.Sum256(head[:length-36])
	if !bytes.Equal(sum[:], head[length-36:length-4]) || int(binary.BigEndian.Uint32(head[length-4:])) != length {
		t.Fatal("the head is damaged")
	}
	var set struct {
		Format, Archive                     string
		Size, Block, PartSize, Data, Parity int
		Parts                               []string
	}
	if err := json.Unmarshal(head[28:28+text], &set); err != nil || set.Format != "sealift.dev/parts/v1" {
		t.Fatal(set, err)
	}
	p := part{number: number - 1, data: set.Data, total: set.Data + set.Parity, size: set.Size, partSize: set.PartSize, block: set.Block}
	p.table, p.blocks = head[28+text:length-36], file[length:len(file)-length]
	if sum := sha256.Sum256(p.table); hex.EncodeToString(sum[:]) != set.Parts[p.number] {
		t.Fatal("the digests are not those of the set")
	}
	for n := 0; n*p.block < len(p.blocks); n++ {
		sum := sha256.Sum256(p.blocks[n*p.block : min(len(p.blocks), (n+1)*p.block)])
		if !bytes.Equal(sum[:], p.table[32*n:32*n+32]) {
			t.Fatal("damaged block", n)
		}
	}
	return p
}

// times multiplies in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1.
func times(a, b byte) (product byte) {
	for ; b > 0; b >>= 1 {
		if b&1 == 1 {
			product ^= a
		}
		carry := a >> 7
		a <<= 1
		if carry == 1 {
			a ^= 0x1d
		}
	}
	return product
}

func inverse(a byte) byte {
	for b := range 256 {
		if times(a, byte(b)) == 1 {
			return byte(b)
		}
	}
	return 0
}

func TestIndependentReaderJoinsParts(t *testing.T) {
	data := make([]byte, 700_001)
	for n := range data {
		data[n] = byte(n*n>>7 + n)
	}
	folder := t.TempDir()
	sum := sha256.Sum256(data)
	set, err := parts.Write(context.Background(), folder, "x", bytes.NewReader(data), int64(len(data)), parts.Options{Archive: hex.EncodeToString(sum[:]), Limit: 200 << 10, Parity: 20})
	if err != nil {
		t.Fatal(err)
	}
	var all []part
	for n := range set.Data + set.Parity {
		file, err := os.ReadFile(filepath.Join(folder, parts.Name("x", n+1)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parsePart(t, file))
	}
	var joined []byte
	for _, p := range all[:all[0].data] {
		joined = append(joined, p.blocks...)
	}
	if !bytes.Equal(joined, data) || len(all) != all[0].total || all[0].size != len(data) {
		t.Fatalf("the data parts have %d bytes", len(joined))
	}

	// Parity p is the sum of data c, each byte divided by (data + p) xor c, and with zeros after the end of the last part.
	for p, parity := range all[all[0].data:] {
		for at, want := range parity.blocks {
			var got byte
			for c, d := range all[:all[0].data] {
				if at < len(d.blocks) {
					got ^= times(inverse(byte((all[0].data+p)^c)), d.blocks[at])
				}
			}
			if got != want {
				t.Fatalf("byte %d of parity %d is %d, not %d", at, p, got, want)
			}
			if at == 1000 {
				break // each is computed in the same way
			}
		}
		if len(parity.blocks) != all[0].partSize {
			t.Error(len(parity.blocks), all[0].partSize)
		}
	}
}
