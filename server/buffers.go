package server

const (
	// largeBuffer is the size of one copy in a transfer. It is large compared with the cost of each copy, and small enough
	// for a slow connection to take within stallTime.
	largeBuffer = 128 << 10
	// maxLarge is the maximum number of transfers with a large buffer. Further transfers have a small one, so that their memory hardly
	// grows.
	maxLarge    = 32
	smallBuffer = 8 << 10
)

// buffers hands out copy buffers.
type buffers struct {
	large chan []byte // a nil element is not allocated yet
}

func newBuffers() *buffers {
	b := &buffers{large: make(chan []byte, maxLarge)}
	for range maxLarge {
		b.large <- nil
	}
	return b
}

// take returns a buffer for a transfer of size bytes. Call give after the copy.
func (b *buffers) take(size int64) (buffer []byte, give func()) {
	if size <= smallBuffer {
		return make([]byte, max(1, size)), func() {}
	}
	select {
	case buffer := <-b.large:
		if buffer == nil {
			buffer = make([]byte, largeBuffer)
		}
		return buffer[:min(size, largeBuffer)], func() { b.large <- buffer }
	default:
		return make([]byte, smallBuffer), func() {}
	}
}
