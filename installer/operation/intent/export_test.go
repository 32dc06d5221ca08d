package intent

// Encode writes an Intent as an agent of an earlier sealift reads it.
func (in Intent) Encode() string { return encode(in) }
