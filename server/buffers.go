package server

const (
	// largeBuffer is what a transfer copies at once: much beside the work that each piece costs, little for a slow line to take in
	// stallTime.
	largeBuffer = 128 << 10
	// maxLarge is how many transfers have a large buffer. Those beyond it have a small one, so that memory hardly grows with them.
	maxLarge    = 32
	smallBuffer = 8 << 10
)

// buffers hands out memory for copies.
type buffers struct {
	large chan []byte // nil for one that is not made yet
}

func newBuffers() *buffers {
	b := &buffers{large: make(chan []byte, maxLarge)}
	for range maxLarge {
		b.large <- nil
	}
	return b
}

// take gives a buffer for some bytes. Call give when the copy has ended.
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
