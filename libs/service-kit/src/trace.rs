//! Traces across processes (W3C Trace Context): from the HTTP request through the event log to the call to the provider. Without
//! `otlp.endpoint` there are no traces, and both functions do almost nothing.

use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

const TRACEPARENT: &str = "traceparent";

/// Returns the current span as a `traceparent` (W3C Trace Context, section 3.2), for a header or the envelope's `trace`. Returns
/// `None` if the span is not part of a trace.
#[must_use]
pub fn current_traceparent() -> Option<String> {
    let context = Span::current().context();
    if !context.span().span_context().is_valid() {
        return None;
    }
    let mut carrier = Carrier(None);
    TraceContextPropagator::new().inject_context(&context, &mut carrier);
    carrier.0
}

/// Makes `span` part of the trace in `traceparent`. The span must not have been entered yet. Ignores a missing or malformed
/// `traceparent`, as section 4.3 of the recommendation requires.
pub fn continue_from(span: &Span, traceparent: Option<&str>) {
    let Some(traceparent) = traceparent else { return };
    let context = TraceContextPropagator::new().extract(&Carrier(Some(traceparent.to_owned())));
    if context.span().span_context().is_valid() {
        // The call fails if traces are off or the span was already entered. In both cases only the trace is lost.
        drop(span.set_parent(context));
    }
}

/// A carrier of `traceparent` only, without the vendors' `tracestate`.
struct Carrier(Option<String>);

impl Injector for Carrier {
    fn set(&mut self, key: &str, value: String) {
        if key == TRACEPARENT {
            self.0 = Some(value);
        }
    }
}

impl Extractor for Carrier {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.as_deref().filter(|_| key == TRACEPARENT)
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT]
    }
}
