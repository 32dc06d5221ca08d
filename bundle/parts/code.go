package parts

import (
	"errors"
	"slices"

	"github.com/klauspost/reedsolomon"
)

// code is a systematic Reed-Solomon code over GF(2^8) with the polynomial 0x11d. Parity symbol p is the sum over all data symbols c
// of symbol c divided by ((data + p) xor c): the rows of a Cauchy matrix. Any as many symbols as there is data give all others.
type code struct {
	data, parity int
	field        reedsolomon.LowLevel
}

func (c *code) factor(parity, data int) byte { return reedsolomon.Inv(byte((c.data + parity) ^ data)) }

// errTooFew reports that fewer symbols are known than there is data.
var errTooFew = errors.New("too few parts")

// weights returns the factors with which the sum of the known symbols is the wanted data symbol. known are as many parts as there is
// data.
func (c *code) weights(known []int, want int) ([]byte, error) {
	if len(known) != c.data {
		return nil, errTooFew
	}
	// Each row has the factors of the data in a known symbol, and those of known symbols, which at the end are the answer.
	rows := make([][]byte, c.data)
	for r, part := range known {
		rows[r] = make([]byte, 2*c.data)
		rows[r][c.data+r] = 1
		if part < c.data {
			rows[r][part] = 1
			continue
		}
		for d := range c.data {
			rows[r][d] = c.factor(part-c.data, d)
		}
	}
	for d := range c.data {
		pivot := slices.IndexFunc(rows[d:], func(row []byte) bool { return row[d] != 0 })
		if pivot < 0 {
			return nil, errors.New("the parts are not independent") // no rows of this matrix are
		}
		rows[d], rows[d+pivot] = rows[d+pivot], rows[d]
		c.field.GalMulSlice(reedsolomon.Inv(rows[d][d]), slices.Clone(rows[d]), rows[d])
		for r := range rows {
			if r != d && rows[r][d] != 0 {
				c.field.GalMulSliceXor(rows[r][d], rows[d], rows[r])
			}
		}
	}
	return rows[want][c.data:], nil
}

// combine returns the sum of the symbols, each times its weight.
func (c *code) combine(weights []byte, symbols [][]byte, length int64) []byte {
	sum := make([]byte, length)
	for n, symbol := range symbols {
		c.field.GalMulSliceXor(weights[n], symbol[:min(len(symbol), len(sum))], sum)
	}
	return sum
}
