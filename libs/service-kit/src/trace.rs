//! Traces across processes (W3C Trace Context). Without `otlp.endpoint`, both functions do almost nothing.

use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

const TRACEPARENT: &str = "traceparent";

/// Current span for a header or the envelope's `trace` (W3C Trace Context, section 3.2). None if it is not part of a trace.
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

/// `span` must not have been entered yet. A malformed `traceparent` is ignored, as section 4.3 of the recommendation requires.
pub fn continue_from(span: &Span, traceparent: Option<&str>) {
    let Some(traceparent) = traceparent else { return };
    let context = TraceContextPropagator::new().extract(&Carrier(Some(traceparent.to_owned())));
    if context.span().span_context().is_valid() {
        // The call fails if traces are off or the span was already entered. In both cases only the trace is lost.
        drop(span.set_parent(context));
    }
}

/// Carries no `tracestate`, which belongs to vendors.
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
