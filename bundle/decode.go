package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Limits for an index that is not verified yet. In memory it can take many times its size in the archive, because it is
// compressed and {} becomes a whole Entry. Real indexes have about 330 bytes per object and 30 per comma, and decompress to
// less than 20 times the size of their archive.
const (
	minPerObject  = 64 // bytes
	minPerComma   = 8  // bytes
	maxInflation  = 64
	smallestBound = 256 << 10 // bytes; an index up to this size is always read
)

// indexBound returns the largest index that is accepted for an archive of size bytes.
func indexBound(size int64) int64 {
	if size > maxIndexSize/maxInflation {
		return maxIndexSize
	}
	return max(smallestBound, size*maxInflation)
}

// checkDensity refuses an index that would take far more memory than it has bytes.
func checkDensity(data []byte) error {
	if len(data) > smallestBound && (bytes.Count(data, []byte("{")) > len(data)/minPerObject || bytes.Count(data, []byte(",")) > len(data)/minPerComma) {
		return errors.New("it has more elements than sealift ever writes")
	}
	return nil
}

// decodeIndex decodes one element at a time and stops at the first invalid one.
func decodeIndex(data []byte) (x Index, err error) {
	if err := checkDensity(data); err != nil {
		return Index{}, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := delimiter(dec, json.Delim('{')); err != nil {
		return Index{}, err
	}
	seen := make(map[string]bool)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return Index{}, err
		}
		name, _ := key.(string)
		if seen[name] {
			return Index{}, fmt.Errorf("%q occurs twice", name)
		}
		seen[name] = true
		if err := x.decodeField(dec, name); err != nil {
			return Index{}, err
		}
	}
	if err := delimiter(dec, json.Delim('}')); err != nil {
		return Index{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Index{}, errors.New("it has data after its end")
	}
	return x, nil
}

func (x *Index) decodeField(dec *json.Decoder, name string) error {
	switch name {
	case "format":
		return dec.Decode(&x.Format)
	case "kind":
		return dec.Decode(&x.Kind)
	case "platforms":
		return dec.Decode(&x.Platforms)
	case "base":
		return dec.Decode(&x.Base)
	case "packages":
		return decodeEach(dec, &x.Packages, func(p PackageInfo) error {
			if !validElement(p.Name) || !validElement(p.Version) {
				return fmt.Errorf("package %q version %q: not usable as folder names", p.Name, p.Version)
			}
			return nil
		})
	case "entries":
		return decodeEach(dec, &x.Entries, func(e Entry) error {
			err := checkPath(e.Path)
			if err == nil && !validDigest(e.SHA256) {
				err = fmt.Errorf("sha256 %q is not 64 lower-case hex digits", e.SHA256)
			}
			if err != nil {
				err = fmt.Errorf("entry %q: %w", e.Path, err)
			}
			return err
		})
	}
	return fmt.Errorf("unknown field %q", name)
}

// decodeEach decodes a list, or null. It checks each element before it reads the next.
func decodeEach[T any](dec *json.Decoder, list *[]T, check func(T) error) error {
	start, err := dec.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('[') {
		return fmt.Errorf("found %v instead of a list", start)
	}
	for dec.More() {
		var one T
		if err := dec.Decode(&one); err != nil {
			return err
		}
		if err := check(one); err != nil {
			return err
		}
		*list = append(*list, one)
	}
	return delimiter(dec, json.Delim(']'))
}

func delimiter(dec *json.Decoder, want json.Delim) error {
	got, err := dec.Token()
	if err == nil && got != want {
		err = fmt.Errorf("found %v instead of %v", got, want)
	}
	return err
}
