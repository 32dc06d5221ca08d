package build

import "testing"

func TestSizesAreParsed(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "12": 12, "3KiB": 3 << 10, "500MiB": 500 << 20, "20GiB": 20 << 30, "1TiB": 1 << 40, "none": -1} {
		var b byteSize
		if err := b.Set(in); err != nil || int64(b) != want || b.String() != in {
			t.Errorf("%s is %d bytes, written %s, %v", in, int64(b), b.String(), err)
		}
	}
	for _, bad := range []string{"", "-1", "GiB", "1.5GiB", "5GB", "9000000TiB", "-2GiB"} {
		var b byteSize
		if err := b.Set(bad); err == nil {
			t.Errorf("%q was taken for %d bytes", bad, int64(b))
		}
	}
}
