"""How TensorFlow trains and infers here: steps that `tf.function` compiles to a graph, as Keras does. Leaves out models (`tensorflow_models`)."""
import tensorflow as tf

VERSION = f"tensorflow {tf.__version__}"
tf.random.set_seed(1)


def tensors(batch):
    return [tf.constant(part) for part in batch]


def training(module):
    """A step that trains a new model, compiled to a graph."""
    model, optimizer = module.Model(), tf.keras.optimizers.Adam()

    @tf.function
    def train_step(batch):
        with tf.GradientTape() as tape:
            loss = module.loss(model, *batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return train_step


def train(module, data, steps):
    train_step = training(module)
    for step in range(steps):
        loss = train_step(data[step % len(data)])
    return float(loss)


def infer(module, data, steps):
    model = module.Model()
    infer_step = tf.function(lambda inputs: model(*inputs))
    for step in range(steps):
        answer = infer_step(data[step % len(data)][:module.INPUTS])
    return float(tf.reduce_sum(answer[0] if isinstance(answer, tuple) else answer))
