package caddymodule

import (
	"bytes"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// recorder keeps fields. Caddy adds a request to each log of the server, also to
// those that will not have its entry: so nothing is encoded before the entry.
type recorder struct{ fields []zapcore.Field }

func (r *recorder) add(f zapcore.Field) { r.fields = append(r.fields, f) }

func (r *recorder) OpenNamespace(k string)                { r.add(zap.Namespace(k)) }
func (r *recorder) AddBinary(k string, v []byte)          { r.add(zap.Binary(k, bytes.Clone(v))) }
func (r *recorder) AddByteString(k string, v []byte)      { r.add(zap.ByteString(k, bytes.Clone(v))) }
func (r *recorder) AddBool(k string, v bool)              { r.add(zap.Bool(k, v)) }
func (r *recorder) AddComplex128(k string, v complex128)  { r.add(zap.Complex128(k, v)) }
func (r *recorder) AddComplex64(k string, v complex64)    { r.add(zap.Complex64(k, v)) }
func (r *recorder) AddDuration(k string, v time.Duration) { r.add(zap.Duration(k, v)) }
func (r *recorder) AddFloat64(k string, v float64)        { r.add(zap.Float64(k, v)) }
func (r *recorder) AddFloat32(k string, v float32)        { r.add(zap.Float32(k, v)) }
func (r *recorder) AddInt(k string, v int)                { r.add(zap.Int(k, v)) }
func (r *recorder) AddInt64(k string, v int64)            { r.add(zap.Int64(k, v)) }
func (r *recorder) AddInt32(k string, v int32)            { r.add(zap.Int32(k, v)) }
func (r *recorder) AddInt16(k string, v int16)            { r.add(zap.Int16(k, v)) }
func (r *recorder) AddInt8(k string, v int8)              { r.add(zap.Int8(k, v)) }
func (r *recorder) AddString(k string, v string)          { r.add(zap.String(k, v)) }
func (r *recorder) AddTime(k string, v time.Time)         { r.add(zap.Time(k, v)) }
func (r *recorder) AddUint(k string, v uint)              { r.add(zap.Uint(k, v)) }
func (r *recorder) AddUint64(k string, v uint64)          { r.add(zap.Uint64(k, v)) }
func (r *recorder) AddUint32(k string, v uint32)          { r.add(zap.Uint32(k, v)) }
func (r *recorder) AddUint16(k string, v uint16)          { r.add(zap.Uint16(k, v)) }
func (r *recorder) AddUint8(k string, v uint8)            { r.add(zap.Uint8(k, v)) }
func (r *recorder) AddUintptr(k string, v uintptr)        { r.add(zap.Uintptr(k, v)) }

func (r *recorder) AddArray(k string, v zapcore.ArrayMarshaler) error {
	r.add(zap.Array(k, v))
	return nil
}

func (r *recorder) AddObject(k string, v zapcore.ObjectMarshaler) error {
	r.add(zap.Object(k, v))
	return nil
}

func (r *recorder) AddReflected(k string, v any) error {
	r.add(zap.Reflect(k, v))
	return nil
}
