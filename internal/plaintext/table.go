package plaintext

import (
	"fmt"
	"reflect"
	"text/tabwriter"
)

// Table writes rows of cells. The text of a cell stays in it: it is written as Line returns it.
type Table struct{ to *tabwriter.Writer }

// NewTable returns a table. Call its Flush.
func NewTable(to *tabwriter.Writer) Table { return Table{to} }

// Printf writes rows. The format has the tabs between cells and the line breaks.
func (t Table) Printf(format string, args ...any) { fmt.Fprint(t.to, Row(format, args...)) }

// Println writes a raw row, such as the names of columns.
func (t Table) Println(row string) { fmt.Fprintln(t.to, row) }

// Row returns a row of a table, as Printf writes it.
func Row(format string, args ...any) string { return fmt.Sprintf(format, cells(args)...) }

// Flush writes the table.
func (t Table) Flush() error { return t.to.Flush() }

// cells makes lines of arguments that are texts. Numbers stay unchanged.
func cells(args []any) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = arg
		switch v := arg.(type) {
		case error:
			list[i] = Line(v.Error())
			continue
		case nil:
			continue
		}
		kind := reflect.TypeOf(arg).Kind()
		if _, named := arg.(fmt.Stringer); kind == reflect.String || kind == reflect.Slice || kind == reflect.Map || named && (kind == reflect.Struct || kind == reflect.Pointer) {
			list[i] = Line(fmt.Sprint(arg))
		}
	}
	return list
}
