package share

import (
	"context"
	"net/http"
)

// Get asks for a path, and reads no answer.
func (c *Client) Get(ctx context.Context, path string) error {
	response, err := c.do(ctx, http.MethodGet, path, nil, "")
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// MaxPerClient is how many connections a client may have.
const MaxPerClient = maxPerClient
