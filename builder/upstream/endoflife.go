package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sealift/sealift/catalog/origin"
)

const endOfLifeAPI = "https://endoflife.date/api/"

// ends are the ends of maintenance, by line. A zero date has passed.
type ends map[string]time.Time

// endsOfLife returns the dates of a rule. Failures are *Error.
func (s *Source) endsOfLife(ctx context.Context, e origin.EndOfLife) (ends, *Error) {
	if e.Product == "" {
		return e.Dates, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	data, err := s.text(ctx, endOfLifeAPI+e.Product+".json", maxPage)
	if err != nil {
		return nil, &Error{"endoflife.date " + e.Product, err}
	}
	dates, err := cycles(data)
	if err != nil {
		return nil, &Error{"endoflife.date " + e.Product, err}
	}
	return dates, nil
}

// cycles reads the list of a product's lines. A line ends on a date, has ended (true), or has no end yet (false).
func cycles(data []byte) (ends, error) {
	var list []struct {
		Cycle any `json:"cycle"` // text or a number
		EOL   any `json:"eol"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	dates := ends{}
	for _, c := range list {
		switch eol := c.EOL.(type) {
		case string:
			if date, err := time.Parse(time.DateOnly, eol); err == nil {
				dates[fmt.Sprint(c.Cycle)] = date
			}
		case bool:
			if eol {
				dates[fmt.Sprint(c.Cycle)] = time.Time{}
			}
		}
	}
	return dates, nil
}

// soon is the time before the end of a release line at which notes begin.
const soon = 90 * 24 * time.Hour

// note adds the end of the catalogue's line to a row.
func (e ends) note(r *Row, now time.Time) {
	if r.Has == "" {
		return
	}
	for _, line := range []string{lineOf(origin.MinorLine, r.Has), lineOf(origin.MajorLine, r.Has)} {
		date, known := e[line]
		if !known {
			continue
		}
		if !date.IsZero() {
			r.EndOfLife = date.Format(time.DateOnly)
		}
		switch {
		case date.IsZero():
			r.Notes = append(r.Notes, "upstream no longer maintains "+line)
		case !now.Before(date.AddDate(0, 0, 1)):
			r.Notes = append(r.Notes, fmt.Sprintf("upstream stopped maintaining %s on %s", line, r.EndOfLife))
		case now.Add(soon).After(date):
			r.Notes = append(r.Notes, fmt.Sprintf("upstream maintains %s until %s", line, r.EndOfLife))
		}
		return
	}
}
