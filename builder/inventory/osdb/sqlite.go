package osdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The file format of SQLite 3 as far as it takes to read one table from start to end. A whole engine of SQL would be a hundred times as large.
const (
	sqliteMagic    = "SQLite format 3\x00"
	sqliteInterior = 0x05 // a page of a table that has pages below it
	sqliteLeaf     = 0x0d // a page of a table that has rows
	sqliteDepth    = 32   // SQLite itself gives up below 20
)

var errSQLite = errors.New("the SQLite file is damaged")

// sqlite reads the tables of one file.
type sqlite struct {
	r      io.ReaderAt
	page   int64
	usable int64 // bytes of a page without those that extensions reserve
	pages  int64 // that may still be read: each page has one place in a sound file
	count  int64 // of the file
}

// sqliteBlobs calls each with the value of one column of every row of a table, which is valid until each returns.
func sqliteBlobs(r io.ReaderAt, size int64, table string, column int, each func([]byte) error) error {
	head := make([]byte, 100)
	if _, err := r.ReadAt(head, 0); err != nil {
		return fmt.Errorf("read the header: %w", err)
	}
	page := int64(binary.BigEndian.Uint16(head[16:]))
	if page == 1 {
		page = 1 << 16
	}
	db := &sqlite{r: r, page: page, usable: page - int64(head[20])}
	if page < 512 || page&(page-1) != 0 || db.usable < 480 || size < page {
		return errSQLite
	}
	db.count = size / page
	db.pages = db.count + 1 // the first page has the list of tables, and may have one of them
	root := int64(0)
	err := db.rows(1, sqliteDepth, func(row []byte) error {
		values, err := record(row, 4)
		if err == nil && string(values[0].data) == "table" && string(values[1].data) == table {
			root = values[3].number()
		}
		return err
	})
	if err != nil {
		return err
	}
	if root < 2 {
		return fmt.Errorf("the SQLite file has no table %s", table)
	}
	db.pages = db.count
	return db.rows(root, sqliteDepth, func(row []byte) error {
		values, err := record(row, column+1)
		if err != nil {
			return err
		}
		return each(values[column].data)
	})
}

// read reads one page. Pages are numbered from 1.
func (db *sqlite) read(number int64) ([]byte, error) {
	if db.pages--; db.pages < 0 || number < 1 || number > db.count {
		return nil, errSQLite
	}
	page := make([]byte, db.page)
	if _, err := db.r.ReadAt(page, (number-1)*db.page); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read page %d: %w", number, err)
	}
	return page, nil
}

// rows calls each for the rows in a page and all pages below it.
func (db *sqlite) rows(number int64, depth int, each func([]byte) error) error {
	page, err := db.read(number)
	if err != nil {
		return err
	}
	if depth == 0 {
		return errSQLite
	}
	head := page
	if number == 1 {
		head = page[100:]
	}
	cells, pointers := int(binary.BigEndian.Uint16(head[3:])), head[8:]
	if head[0] == sqliteInterior {
		pointers = head[12:]
	} else if head[0] != sqliteLeaf {
		return errSQLite
	}
	if len(pointers) < 2*cells {
		return errSQLite
	}
	for n := range cells {
		at := int(binary.BigEndian.Uint16(pointers[2*n:]))
		if at+4 > len(page) {
			return errSQLite
		}
		if head[0] == sqliteInterior {
			err = db.rows(int64(binary.BigEndian.Uint32(page[at:])), depth-1, each)
		} else {
			err = db.row(page[:db.usable], at, each)
		}
		if err != nil {
			return err
		}
	}
	if head[0] == sqliteInterior {
		return db.rows(int64(binary.BigEndian.Uint32(head[8:])), depth-1, each)
	}
	return nil
}

// row calls each with the row whose cell begins at an offset of a page, with what overflows into other pages.
func (db *sqlite) row(page []byte, at int, each func([]byte) error) error {
	if at > len(page) {
		return errSQLite
	}
	cell := page[at:]
	length, n := sqliteVarint(cell)
	_, m := sqliteVarint(cell[n:]) // the row's number
	if n == 0 || m == 0 || length < 0 || length > maxHeader {
		return errSQLite
	}
	cell = cell[n+m:]
	local := length
	if most := db.usable - 35; length > most {
		least := (db.usable-12)*32/255 - 23
		if local = least + (length-least)%(db.usable-4); local > most {
			local = least
		}
	}
	if local > int64(len(cell)) || (local < length && local+4 > int64(len(cell))) {
		return errSQLite
	}
	if local == length {
		return each(cell[:local])
	}
	row, next := append([]byte(nil), cell[:local]...), binary.BigEndian.Uint32(cell[local:])
	for int64(len(row)) < length {
		overflow, err := db.read(int64(next))
		if err != nil {
			return err
		}
		next = binary.BigEndian.Uint32(overflow)
		row = append(row, overflow[4:4+min(db.usable-4, length-int64(len(row)))]...)
	}
	return each(row)
}

// value is a value of a row.
type value struct {
	kind int64 // serial type
	data []byte
}

// number returns an integer that is not negative, or 0.
func (v value) number() int64 {
	switch {
	case v.kind == 9:
		return 1
	case v.kind < 1 || v.kind > 6 || (len(v.data) == 8 && v.data[0] >= 0x80):
		return 0
	}
	n := int64(0)
	for _, b := range v.data {
		n = n<<8 | int64(b)
	}
	return n
}

// record returns the first values of a row.
func record(row []byte, count int) ([]value, error) {
	length, n := sqliteVarint(row)
	if n == 0 || length < int64(n) || length > int64(len(row)) {
		return nil, errSQLite
	}
	kinds, data := row[n:length], row[length:]
	values := make([]value, 0, count)
	for len(values) < count {
		kind, n := sqliteVarint(kinds)
		if n == 0 || kind < 0 {
			return nil, errSQLite
		}
		size := int64(0)
		switch {
		case kind >= 12:
			size = (kind - 12) / 2
		case kind == 5:
			size = 6
		case kind == 6 || kind == 7:
			size = 8
		case kind <= 4:
			size = kind
		}
		if size > int64(len(data)) {
			return nil, errSQLite
		}
		values = append(values, value{kind, data[:size]})
		kinds, data = kinds[n:], data[size:]
	}
	return values, nil
}

// sqliteVarint decodes a number of up to nine bytes, big-endian, seven bits in each of the first eight. It returns the count of its
// bytes, or 0 if they are cut.
func sqliteVarint(data []byte) (n int64, size int) {
	for i := range min(len(data), 9) {
		if i == 8 {
			return n<<8 | int64(data[i]), 9
		}
		n = n<<7 | int64(data[i]&0x7f)
		if data[i] < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}
